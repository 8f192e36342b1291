//! Authentication: a clients file, one shared token, or open development mode.
//!
//! Tokens are looked up by their SHA-256, so nothing the daemon keeps opens a door, and comparing takes the same time
//! whatever the caller sent. Nothing about a refused token is ever logged, only how many there were.

mod callers;
mod principal;
mod registry;
mod settings;
mod throttle;

pub use callers::Callers;
pub use plimsoll_callers::{Client, MIN_TOKEN_BYTES};
pub use principal::{Principal, RUN_SCOPE, UnusableIdentity};
pub use registry::{Next, Registry, RegistryError, Reload, Reloaded};
pub use settings::{Mode, VARS};
pub use throttle::Throttle;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Identity of the one caller of a shared token.
const STATIC: &str = "static";

/// The daemon's callers.
#[derive(Debug)]
pub struct Auth(Known);

#[derive(Debug)]
enum Known {
    Open(Principal),
    Token { digest: [u8; 32], principal: Principal },
    Registry(HashMap<[u8; 32], Principal>),
}

/// Neither a known token nor open mode. Says nothing about what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a known bearer token is required")]
pub struct Unauthenticated;

impl Auth {
    /// Every call is allowed and nobody has an identity.
    pub fn open() -> Self {
        Self(Known::Open(Principal::anonymous()))
    }

    /// One shared token, one caller named `static` with the scope `code:run`. Only the token's digest is kept.
    pub fn token(token: &str) -> Self {
        #[expect(clippy::expect_used, reason = "the constant name obeys every rule of an identity")]
        let principal = Principal::verified(STATIC.as_bytes(), vec![RUN_SCOPE.to_owned()]).expect("a constant");
        Self(Known::Token {
            digest: Sha256::digest(token).into(),
            principal,
        })
    }

    /// The callers of a validated registry.
    ///
    /// # Errors
    /// An identity that obeys no rule; the parser has refused those already.
    pub fn registry(clients: Vec<Client>) -> Result<Self, UnusableIdentity> {
        let mut registry = HashMap::with_capacity(clients.len());
        for client in clients {
            registry.insert(
                client.token_sha256,
                Principal::verified(client.id.as_bytes(), client.scopes)?,
            );
        }
        Ok(Self(Known::Registry(registry)))
    }

    /// Whether every call is allowed without a token.
    pub const fn is_open(&self) -> bool {
        matches!(self.0, Known::Open(_))
    }

    /// The id of everybody who has one.
    fn ids(&self) -> HashSet<Arc<str>> {
        let id = |caller: &Principal| caller.identity().is_some().then(|| Arc::clone(caller.key()));
        match &self.0 {
            Known::Open(anyone) => id(anyone).into_iter().collect(),
            Known::Token { principal, .. } => id(principal).into_iter().collect(),
            Known::Registry(registry) => registry.values().filter_map(id).collect(),
        }
    }

    /// Whether some caller who can be told from others may run code and satisfies `wanted`, which is given its identity.
    pub fn any_runner(&self, mut wanted: impl FnMut(&str) -> bool) -> bool {
        let mut wanted = |caller: &Principal| caller.allows(RUN_SCOPE) && caller.identity().is_some_and(&mut wanted);
        match &self.0 {
            Known::Open(anyone) => wanted(anyone),
            Known::Token { principal, .. } => wanted(principal),
            Known::Registry(registry) => registry.values().any(wanted),
        }
    }

    /// Finds the caller from the values of the `Authorization` header, in the order they came.
    ///
    /// # Errors
    /// No header, more than one, another form than `Bearer TOKEN`, or a token nobody has. In open mode, none.
    pub fn authenticate<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> Result<Principal, Unauthenticated> {
        if let Known::Open(anyone) = &self.0 {
            return Ok(anyone.clone());
        }
        let mut values = values.into_iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Unauthenticated);
        };
        let digest: [u8; 32] = Sha256::digest(bearer(value).ok_or(Unauthenticated)?).into();
        match &self.0 {
            Known::Open(anyone) => Ok(anyone.clone()),
            Known::Token {
                digest: expected,
                principal,
            } => {
                if bool::from(expected.ct_eq(&digest)) {
                    Ok(principal.clone())
                } else {
                    Err(Unauthenticated)
                }
            }
            // What the look-up's time could tell is about digests of the caller's own making.
            Known::Registry(registry) => registry.get(&digest).cloned().ok_or(Unauthenticated),
        }
    }
}

/// The token of `Bearer TOKEN`: two parts with white space between, the scheme in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let mut parts = value.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(scheme), Some(token), None) if scheme.eq_ignore_ascii_case(b"bearer") => Some(token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn registry(scopes: &[&str]) -> Auth {
        Auth::registry(vec![Client {
            id: "ci".to_owned(),
            token_sha256: Sha256::digest("t").into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            paid_seconds_per_day: 0,
        }])
        .unwrap()
    }

    fn identity(auth: &Auth, values: &[&str]) -> Option<String> {
        let caller = auth.authenticate(values.iter().map(|value| value.as_bytes()));
        caller.ok().and_then(|caller| caller.identity().map(str::to_owned))
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for value in ["Bearer t", "bearer t", "BEARER t", "  Bearer\t t  "] {
            assert_eq!(identity(&registry(&[]), &[value]).as_deref(), Some("ci"), "{value:?}");
        }
    }

    #[test]
    fn anything_but_one_bearer_token_is_no_token() {
        for values in [
            &["t"][..],
            &["Basic t"],
            &["Bearer"],
            &["Bearer a b"],
            &[""],
            &[],
            &["Bearer t", "Bearer t"],
        ] {
            assert_eq!(identity(&registry(&[]), values), None, "{values:?}");
        }
        assert!(registry(&[]).authenticate([&b"Bearer \xff"[..]]).is_err());
    }

    #[test]
    fn a_shared_token_is_one_caller_named_static() {
        let auth = Auth::token(TOKEN);
        assert_eq!(
            identity(&auth, &[&format!("Bearer {TOKEN}")]).as_deref(),
            Some("static")
        );
        let caller = auth.authenticate([format!("Bearer {TOKEN}").as_bytes()]).unwrap();
        assert!(caller.allows(RUN_SCOPE) && !caller.allows("other"));
        // Wrong tokens of growing common prefix and of other lengths.
        for length in 0..TOKEN.len() {
            assert_eq!(identity(&auth, &[&format!("Bearer {}", &TOKEN[..length])]), None);
            assert_eq!(
                identity(
                    &auth,
                    &[&format!("Bearer {}{}", &TOKEN[..length], "x".repeat(32 - length))]
                ),
                None
            );
        }
        assert_eq!(identity(&auth, &[&format!("Bearer {TOKEN}0")]), None);
    }

    #[test]
    fn open_mode_asks_for_nothing_and_knows_nobody() {
        let auth = Auth::open();
        for values in [&[][..], &["Bearer x"], &["a", "b"]] {
            let caller = auth.authenticate(values.iter().map(|value| value.as_bytes())).unwrap();
            assert_eq!((caller.identity(), &**caller.key()), (None, "anon"));
        }
        assert!(auth.is_open() && !registry(&[]).is_open());
    }

    #[test]
    fn what_is_kept_and_shown_holds_no_token() {
        let auth = Auth::token(TOKEN);
        assert!(!format!("{auth:?} {}", Unauthenticated).contains(&TOKEN[..8]));
    }
}
