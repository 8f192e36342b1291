//! What an API checks of a token before it believes it. Made to be copied: nothing here knows plimsoll.
//!
//! The routes a run may call are not in the token. A token that is believed says who calls and which scopes it carries;
//! what that permits is the API's own decision, route by route.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;

/// How far the clocks of minter and API may be apart.
const LEEWAY: Duration = Duration::from_secs(5);

/// Longest token that is looked at, in bytes; a longer one is no token of this minter.
const LONGEST: usize = 4096;

/// Who calls, once the token was believed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The caller of plimsoll that the token was minted for.
    pub(crate) subject: String,
    scopes: Vec<String>,
}

impl Caller {
    /// Whether the token carries a scope, whole and exactly.
    pub(crate) fn require(&self, scope: &str) -> Result<(), Denied> {
        if self.scopes.iter().any(|held| held == scope) {
            Ok(())
        } else {
            Err(Denied::Scope)
        }
    }
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("no bearer token")]
    Missing,
    #[error("not a token of the expected form")]
    Malformed,
    #[error("signed in another way than HS256")]
    Algorithm,
    #[error("the signature is not ours")]
    Signature,
    #[error("meant for another audience")]
    Audience,
    #[error("not valid yet")]
    Early,
    #[error("expired")]
    Expired,
    #[error("names no subject")]
    Subject,
    #[error("lacks the scope of this route")]
    Scope,
}

impl Denied {
    /// 403 when the token is good and not enough, 401 otherwise.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Scope => 403,
            _ => 401,
        }
    }
}

/// Believes tokens of one key, for one audience.
pub(crate) struct Verifier {
    secret: Vec<u8>,
    audience: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    aud: String,
    sub: String,
    nbf: u64,
    exp: u64,
    #[serde(default)]
    scope: String,
}

impl Verifier {
    pub(crate) fn new(secret: Vec<u8>, audience: &str) -> Self {
        Self {
            secret,
            audience: audience.to_owned(),
        }
    }

    /// Checks the value of an `Authorization` header. Nothing of the token is believed before its signature is.
    ///
    /// A token is used for every call of its run, so `jti` is no reason to refuse the second one.
    pub(crate) fn verify(&self, authorization: Option<&str>, now: SystemTime) -> Result<Caller, Denied> {
        let token = authorization
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or(Denied::Missing)?;
        if token.len() > LONGEST {
            return Err(Denied::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Denied::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Denied::Malformed)?;
        // The algorithm is ours to choose. The header may only agree: `none` and every other word are refused.
        if read::<Header>(header)?.alg != "HS256" {
            return Err(Denied::Algorithm);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Denied::Malformed)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).map_err(|_| Denied::Signature)?;
        mac.update(signed.as_bytes());
        // In constant time: a comparison that stops early tells a forger how far it got.
        mac.verify_slice(&signature).map_err(|_| Denied::Signature)?;

        let claims = read::<Claims>(claims)?;
        if claims.aud != self.audience {
            return Err(Denied::Audience);
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if now + LEEWAY < Duration::from_secs(claims.nbf) {
            return Err(Denied::Early);
        }
        if Duration::from_secs(claims.exp).saturating_add(LEEWAY) <= now {
            return Err(Denied::Expired);
        }
        if claims.sub.trim().is_empty() {
            return Err(Denied::Subject);
        }
        Ok(Caller {
            subject: claims.sub,
            scopes: claims.scope.split(' ').map(str::to_owned).collect(),
        })
    }
}

fn read<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, Denied> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| Denied::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| Denied::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn signed(header: &str, claims: &str, secret: &[u8]) -> String {
        let parts = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(parts.as_bytes());
        format!("Bearer {parts}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    fn claims(aud: &str, sub: &str, nbf: u64, exp: u64) -> String {
        format!(
            r#"{{"aud":"{aud}","exp":{exp},"iat":{nbf},"jti":"0","nbf":{nbf},"scope":"berths:read berths:write","sub":"{sub}"}}"#
        )
    }

    fn verify(authorization: &str, now: u64) -> Result<Caller, Denied> {
        Verifier::new(SECRET.to_vec(), "port-api").verify(Some(authorization), at(now))
    }

    #[test]
    fn a_good_token_names_its_subject_and_its_scopes_as_often_as_it_is_used() {
        let token = signed(HEADER, &claims("port-api", "alice", 100, 160), SECRET);
        for now in [95, 100, 159, 164] {
            let caller = verify(&token, now).unwrap();
            assert_eq!(caller.subject, "alice");
            assert_eq!(caller.require("berths:write"), Ok(()));
            for scope in ["berths", "berths:read berths:write", "crew:read", ""] {
                assert_eq!(caller.require(scope), Err(Denied::Scope), "{scope:?}");
            }
        }
    }

    #[test]
    fn each_thing_that_can_be_wrong_is_refused_by_itself() {
        let good = claims("port-api", "alice", 100, 160);
        let cases = [
            (String::new(), Denied::Missing),
            ("Basic YTpi".to_owned(), Denied::Missing),
            ("Bearer ".to_owned(), Denied::Malformed),
            ("Bearer a.b.c".to_owned(), Denied::Malformed),
            (format!("Bearer {}", "x".repeat(LONGEST + 1)), Denied::Malformed),
            (signed(r#"{"alg":"none"}"#, &good, SECRET), Denied::Algorithm),
            (signed(r#"{"alg":"hs256"}"#, &good, SECRET), Denied::Algorithm),
            (signed(r#"{"alg":"RS256"}"#, &good, SECRET), Denied::Algorithm),
            (
                signed(HEADER, &good, b"another key of thirty-two bytes.."),
                Denied::Signature,
            ),
            (
                signed(HEADER, &claims("crew-api", "alice", 100, 160), SECRET),
                Denied::Audience,
            ),
            (
                signed(HEADER, &claims("port-api", " ", 100, 160), SECRET),
                Denied::Subject,
            ),
            (
                signed(HEADER, &claims("port-api", "alice", 126, 160), SECRET),
                Denied::Early,
            ),
            (
                signed(HEADER, &claims("port-api", "alice", 10, 115), SECRET),
                Denied::Expired,
            ),
            (signed(HEADER, r#"{"aud":"port-api"}"#, SECRET), Denied::Malformed),
        ];
        for (authorization, denied) in cases {
            assert_eq!(verify(&authorization, 120), Err(denied), "{authorization}");
        }
    }

    #[test]
    fn a_changed_byte_of_any_part_breaks_the_signature() {
        let token = signed(HEADER, &claims("port-api", "alice", 100, 160), SECRET);
        let parts: Vec<&str> = token.split('.').collect();
        let other = URL_SAFE_NO_PAD.encode(claims("port-api", "mallory", 100, 160));
        assert_eq!(
            verify(&format!("{}.{other}.{}", parts[0], parts[2]), 120),
            Err(Denied::Signature)
        );
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT","kid":"k2"}"#);
        assert_eq!(
            verify(&format!("Bearer {header}.{}.{}", parts[1], parts[2]), 120),
            Err(Denied::Signature)
        );
        assert_eq!(
            verify(&format!("{}.{}.", parts[0], parts[1]), 120),
            Err(Denied::Signature),
            "none at all"
        );
    }
}
