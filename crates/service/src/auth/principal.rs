//! Who is calling, once that is known.

use std::sync::Arc;

use plimsoll_callers::check_identity;

/// The scope every procedure of the service needs.
pub const RUN_SCOPE: &str = "code:run";

/// The scope that satisfies every other.
const ANY_SCOPE: &str = "*";

/// Limiter key and audit name of a caller without identity, in open mode.
const ANONYMOUS: &str = "anon";

/// An authenticated caller, or the nameless one of open mode. Clones share their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Arc<Data>);

#[derive(Debug, PartialEq, Eq)]
struct Data {
    key: Arc<str>,
    identified: bool,
    scopes: Vec<String>,
}

/// The identity a verifier gave is none: not usable as a key, a name in the log or an entry of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller's identity {0}")]
pub struct UnusableIdentity(&'static str);

impl Principal {
    /// A caller with a stable identity, as any verifier states it.
    ///
    /// # Errors
    /// The identity is not UTF-8, empty, `*`, padded with white space, or holds control characters.
    pub fn verified(identity: &[u8], scopes: Vec<String>) -> Result<Self, UnusableIdentity> {
        let identity = std::str::from_utf8(identity).map_err(|_| UnusableIdentity("must be valid UTF-8"))?;
        check_identity(identity).map_err(UnusableIdentity)?;
        Ok(Self(Arc::new(Data {
            key: identity.into(),
            identified: true,
            scopes,
        })))
    }

    /// The caller of open mode: no identity, every scope.
    pub fn anonymous() -> Self {
        Self(Arc::new(Data {
            key: ANONYMOUS.into(),
            identified: false,
            scopes: vec![ANY_SCOPE.to_owned()],
        }))
    }

    /// Limiter key and audit name.
    pub fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// The identity, where there is one: what access lists name and session ownership rests on.
    pub fn identity(&self) -> Option<&str> {
        self.0.identified.then_some(&*self.0.key)
    }

    /// Whether the caller holds `scope`, or every scope.
    pub fn allows(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|held| held == scope || held == ANY_SCOPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_stable_text_or_the_caller_is_refused() {
        for identity in [
            &b""[..],
            b"*",
            b" alice ",
            b"alice\nadmin",
            b"\xff",
            b"a\0",
            "a\u{85}b".as_bytes(),
        ] {
            assert!(Principal::verified(identity, Vec::new()).is_err(), "{identity:?}");
        }
        let alice = Principal::verified(b"alice", vec!["code:run".to_owned()]).unwrap();
        assert_eq!((alice.identity(), &**alice.key()), (Some("alice"), "alice"));
    }

    #[test]
    fn a_scope_is_held_by_name_or_by_the_scope_for_all() {
        let caller = |scopes: &[&str]| Principal::verified(b"a", scopes.iter().map(|s| (*s).to_owned()).collect());
        assert!(caller(&["code:run"]).unwrap().allows(RUN_SCOPE));
        assert!(caller(&["*"]).unwrap().allows(RUN_SCOPE));
        for scopes in [&[][..], &["code:runs"], &["code"], &["code:*"]] {
            assert!(!caller(scopes).unwrap().allows(RUN_SCOPE), "{scopes:?}");
        }
    }

    #[test]
    fn no_grant_may_carry_a_scope_that_opens_this_service() {
        assert_eq!(plimsoll_grants::grant::RESERVED_SCOPES, [RUN_SCOPE, ANY_SCOPE]);
    }

    #[test]
    fn the_open_mode_caller_has_a_key_and_no_identity() {
        let anyone = Principal::anonymous();
        assert_eq!((&**anyone.key(), anyone.identity()), ("anon", None));
        assert!(anyone.allows(RUN_SCOPE));
        // A caller of that name in a clients file is somebody: it has an identity.
        assert_eq!(
            Principal::verified(b"anon", Vec::new()).unwrap().identity(),
            Some("anon")
        );
    }
}
