//! Credentials for one run: made after every check and before launch, and never shown to the guest (spec 30 §4).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use plimsoll_core::{Code, Reason, Refusal};
use zeroize::Zeroizing;

use crate::grant::Grant;
use crate::route::Route;

mod fixed;
mod jwt;

pub use fixed::StaticMinter;
pub use jwt::{DEFAULT_TTL, JwtMinter, JwtSettings, MAX_TTL, MIN_SECRET_BYTES};

/// What a credential is minted for. A copy: a minter cannot change the grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintScope {
    /// Origin of the API.
    pub base_url: String,
    /// Routes the run may call.
    pub allow: Vec<Route>,
    /// What the token may be used for.
    pub scopes: Vec<String>,
    /// The run's whole time limit.
    pub ttl: Duration,
    /// The authenticated caller; empty when there is none.
    pub subject: String,
}

/// The answer of [`Minter::mint`].
pub type MintFuture<'a> = Pin<Box<dyn Future<Output = Result<Credential, MintError>> + Send + 'a>>;

/// Makes the credential of one run. Shared by all runs of a grant, so it keeps no state of a run.
pub trait Minter: Send + Sync + fmt::Debug {
    /// Makes one credential.
    fn mint(&self, scope: MintScope) -> MintFuture<'_>;

    /// Whether the credential names the caller, so that there must be an authenticated one.
    fn requires_subject(&self) -> bool {
        false
    }
}

/// A credential. Its memory is wiped when it is dropped, and no formatter shows it.
pub struct Credential {
    value: Zeroizing<String>,
    expires_at: Option<SystemTime>,
}

impl Credential {
    /// A credential without an end that we know of.
    pub fn new(value: impl Into<String>) -> Self {
        Self {
            value: Zeroizing::new(value.into()),
            expires_at: None,
        }
    }

    /// States when it stops being accepted.
    #[must_use]
    pub const fn expiring_at(mut self, when: SystemTime) -> Self {
        self.expires_at = Some(when);
        self
    }

    /// The value, for the `Authorization` header and nothing else.
    pub fn expose(&self) -> &str {
        &self.value
    }

    /// When it stops being accepted.
    pub const fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Why there is no credential. Holds fixed words only, so it can hold no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The grant's token names the caller, and the caller has no usable name.
    #[error("the grant's token names its caller, and this caller has no identity that a token can carry")]
    Subject,
    /// The minter could not.
    #[error("the credential could not be minted: {0}")]
    Failed(&'static str),
    /// The minter gave something that cannot stand in a header.
    #[error("the minted credential is empty or holds a character outside the visible ASCII ones")]
    Value,
    /// The minter gave something that is over already.
    #[error("the minted credential has expired already")]
    Expired,
}

impl MintError {
    /// The refusal of a run whose credential could not be minted: nothing of it ran, and no other provider can help.
    pub fn refusal(self) -> Refusal {
        Refusal::new(Code::Internal, Reason::Permission, self.to_string())
    }
}

/// Mints the credential of one run; nothing when the grant has no minter.
///
/// `ttl` is the run's whole time limit and `subject` its authenticated caller.
///
/// # Errors
/// When the caller has no usable identity (the minter is then not asked), the minter fails, or what it gives is unusable.
pub async fn mint(grant: &Grant, subject: Option<&str>, ttl: Duration) -> Result<Option<Credential>, MintError> {
    let Some(minter) = grant.minter() else {
        return Ok(None);
    };
    let subject = subject.unwrap_or_default();
    if minter.requires_subject() && !is_subject(subject) {
        return Err(MintError::Subject);
    }
    let scope = MintScope {
        base_url: grant.origin().as_str().to_owned(),
        allow: grant.allow().to_vec(),
        scopes: grant.scopes().to_vec(),
        ttl,
        subject: subject.to_owned(),
    };
    let credential = minter.mint(scope).await?;
    if !is_header_value(credential.expose()) {
        return Err(MintError::Value);
    }
    if credential.expires_at.is_some_and(|end| end <= SystemTime::now()) {
        return Err(MintError::Expired);
    }
    Ok(Some(credential))
}

/// Whether a text can be an identity, and so the subject of a token.
pub(crate) fn is_subject(subject: &str) -> bool {
    !subject.is_empty() && subject != "*" && subject.trim() == subject && !subject.contains(char::is_control)
}

/// Whether a credential can stand in a header as it is.
pub(crate) fn is_header_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
