//! The callers in force, in whose place a reload may put others.

use std::collections::HashSet;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::RwLock;
use plimsoll_sandbox::BoxFuture;

use super::{Auth, Principal};
use crate::edge::{AuthFailure, Authenticator};

/// Whoever may call just now. Clones share them.
#[derive(Clone, Debug)]
pub struct Callers(Arc<RwLock<Auth>>);

impl Callers {
    /// The callers of the start.
    pub fn new(auth: Auth) -> Self {
        Self(Arc::new(RwLock::new(auth)))
    }

    /// Puts others in their place, between two requests, and answers the ids that are gone. A request whose caller has been
    /// found goes on with it.
    pub(super) fn replace(&self, auth: Auth) -> Vec<Arc<str>> {
        let known = auth.ids();
        // The lock is free again before a large registry is walked and let go.
        let before = std::mem::replace(&mut *self.0.write(), auth);
        before.ids().difference(&known).cloned().collect()
    }

    /// The id of everybody who has one.
    pub fn ids(&self) -> HashSet<Arc<str>> {
        self.0.read().ids()
    }
}

impl Authenticator for Callers {
    fn is_open(&self) -> bool {
        self.0.read().is_open()
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, AuthFailure>> {
        let values = headers.get_all(AUTHORIZATION).iter().map(http::HeaderValue::as_bytes);
        let caller = self.0.read().authenticate(values);
        Box::pin(std::future::ready(caller.map_err(|_| AuthFailure::Unauthenticated)))
    }
}
