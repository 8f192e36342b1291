//! A fresh HS256 token for every run.
//!
//! Written out here because the header's members are in a fixed order, which JWT libraries choose otherwise.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Credential, MintError, MintFuture, MintScope, Minter};

/// Shortest secret: as long as the digest, below which HS256 is weaker than it looks.
pub const MIN_SECRET_BYTES: usize = 32;
/// Lifetime of a token when the settings do not say.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// Longest lifetime of a token: nothing revokes one.
pub const MAX_TTL: Duration = Duration::from_secs(86_400);
/// What a token may outlive its run by: clocks differ, and the last call needs time.
const GRACE: Duration = Duration::from_secs(5);
/// Length of the written signature: 32 bytes in base64 without padding.
const SIGNATURE_BYTES: usize = 43;

/// How tokens are made.
pub struct JwtSettings {
    /// The key both sides share; at least [`MIN_SECRET_BYTES`].
    pub secret: Zeroizing<Vec<u8>>,
    /// `aud`, as written; not blank.
    pub audience: String,
    /// `iss`; empty leaves it out.
    pub issuer: String,
    /// `kid`; empty leaves it out.
    pub key_id: String,
    /// Longest lifetime; zero is [`DEFAULT_TTL`], at most [`MAX_TTL`].
    pub ttl: Duration,
}

impl fmt::Debug for JwtSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtSettings")
            .field("audience", &self.audience)
            .field("issuer", &self.issuer)
            .field("key_id", &self.key_id)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// Signs a token per run that names the caller and lives little longer than the run.
#[derive(Debug)]
pub struct JwtMinter {
    settings: JwtSettings,
    now: fn() -> SystemTime,
    token_id: fn() -> Result<[u8; 16], MintError>,
}

impl JwtMinter {
    /// A minter with these settings.
    ///
    /// # Errors
    /// A secret that is too short, a blank audience, or a lifetime over [`MAX_TTL`].
    pub fn new(mut settings: JwtSettings) -> Result<Self, MintError> {
        if settings.secret.len() < MIN_SECRET_BYTES {
            return Err(MintError::Failed("the jwt secret must be at least 32 bytes"));
        }
        if settings.audience.trim().is_empty() {
            return Err(MintError::Failed("the jwt audience must not be blank"));
        }
        if settings.ttl > MAX_TTL {
            return Err(MintError::Failed("the jwt lifetime must be at most 86400 seconds"));
        }
        if settings.ttl.is_zero() {
            settings.ttl = DEFAULT_TTL;
        }
        Ok(Self {
            settings,
            now: SystemTime::now,
            token_id: random_id,
        })
    }

    /// The longest a token lives.
    pub const fn ttl(&self) -> Duration {
        self.settings.ttl
    }

    #[cfg(test)]
    pub(super) const fn with_sources(
        mut self,
        now: fn() -> SystemTime,
        token_id: fn() -> Result<[u8; 16], MintError>,
    ) -> Self {
        self.now = now;
        self.token_id = token_id;
        self
    }

    fn sign(&self, scope: &MintScope) -> Result<Credential, MintError> {
        let subject = scope.subject.trim();
        if subject.is_empty() {
            return Err(MintError::Subject);
        }
        let now = (self.now)();
        let end = now + lifetime(self.settings.ttl, scope.ttl);
        let issued_at = unix_seconds(now)?;
        let token_id = hex((self.token_id)()?);
        let scopes = scope.scopes.join(" ");
        let header = Header {
            alg: "HS256",
            kid: &self.settings.key_id,
            typ: "JWT",
        };
        let claims = Claims {
            aud: &self.settings.audience,
            exp: unix_seconds(end)?,
            iat: issued_at,
            iss: &self.settings.issuer,
            jti: &token_id,
            nbf: issued_at,
            scope: &scopes,
            sub: subject,
        };
        let signed = format!("{}.{}", part(&header)?, part(&claims)?);
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.settings.secret)
            .map_err(|_| MintError::Failed("the jwt secret cannot be used"))?;
        mac.update(signed.as_bytes());
        // Room for the signature, so that the token is never copied to a place that is not wiped.
        let mut token = Zeroizing::new(String::with_capacity(signed.len() + 1 + SIGNATURE_BYTES));
        token.push_str(&signed);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(mac.finalize().into_bytes(), &mut token);
        Ok(Credential {
            value: token,
            expires_at: Some(end),
        })
    }
}

impl Minter for JwtMinter {
    fn mint(&self, scope: MintScope) -> MintFuture<'_> {
        Box::pin(async move { self.sign(&scope) })
    }

    fn requires_subject(&self) -> bool {
        true
    }
}

/// Members in alphabetical order; `kid` only when there is one.
#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kid: &'a str,
    typ: &'a str,
}

/// Members in alphabetical order.
#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    exp: u64,
    iat: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    iss: &'a str,
    jti: &'a str,
    nbf: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    sub: &'a str,
}

/// No token lives much longer than its run needs it.
pub(super) fn lifetime(ttl: Duration, run: Duration) -> Duration {
    if run.is_zero() {
        ttl
    } else {
        ttl.min(run.saturating_add(GRACE))
    }
}

fn part(value: &impl Serialize) -> Result<String, MintError> {
    let json = serde_json::to_vec(value).map_err(|_| MintError::Failed("the token cannot be written"))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

fn unix_seconds(time: SystemTime) -> Result<u64, MintError> {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => Ok(since.as_secs()),
        Err(_) => Err(MintError::Failed("the clock stands before 1970")),
    }
}

fn random_id() -> Result<[u8; 16], MintError> {
    let mut id = [0; 16];
    match getrandom::fill(&mut id) {
        Ok(()) => Ok(id),
        Err(_) => Err(MintError::Failed("the system gives no randomness")),
    }
}

fn hex(bytes: [u8; 16]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
