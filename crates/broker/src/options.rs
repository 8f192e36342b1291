//! What a broker is opened with beside its grant and its credential.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use plimsoll_grants::caps::RouteCaps;
use plimsoll_grants::trace::CallObserver;
use rustls::ClientConfig;
use thiserror::Error;

use crate::tls::TlsError;
use crate::upstream::dial::{Resolver, SystemResolver};

/// Settings of the process rather than of a grant; none of them can widen what a grant allows. Cheap to clone.
#[derive(Clone)]
pub struct BrokerOptions {
    /// The `User-Agent` of every call; `plimsoll-broker/<version>` by default.
    pub user_agent: HeaderValue,
    /// How TLS is verified; [`system_tls`](crate::system_tls) when absent, which is the default.
    pub tls: Option<Arc<ClientConfig>>,
    /// How names become addresses, which the broker then checks; the host's resolver by default.
    pub resolver: Arc<dyn Resolver>,
    /// Told of every call that was sent; nobody by default.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Told why a call that was approved has no answer to deliver; nobody by default.
    pub causes: Option<Arc<dyn CauseObserver>>,
    /// The route counts to charge: those of the session for a call in one; counts of this run alone when absent.
    pub caps: Option<Arc<RouteCaps>>,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self {
            user_agent: HeaderValue::from_static(concat!("plimsoll-broker/", env!("CARGO_PKG_VERSION"))),
            tls: None,
            resolver: Arc::new(SystemResolver),
            observer: None,
            causes: None,
            caps: None,
        }
    }
}

impl fmt::Debug for BrokerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerOptions")
            .field("user_agent", &self.user_agent)
            .field("own_tls", &self.tls.is_some())
            .field("resolver", &self.resolver)
            .field("observer", &self.observer)
            .field("causes", &self.causes)
            .field("caps", &self.caps)
            .finish()
    }
}

/// Told what a guest never is: why a call has no answer. For whoever owns the grants, on the host they run on.
pub trait CauseObserver: Send + Sync + fmt::Debug {
    /// A call that was approved has no answer to deliver. `cause` is one sentence without its end, such as a name that does
    /// not resolve or a certificate that is not trusted; it holds nothing a guest or a body sent.
    fn unanswered(&self, cause: &str);
}

/// Why a broker cannot be opened. Never holds a credential.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// No TLS for an `https` origin.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The host is no name a certificate can be checked against.
    #[error("grant: base_url: the host is not a valid server name; correct it")]
    Host,
    /// The minted value cannot stand in a header.
    #[error("grant: the minted credential cannot be sent: it holds a character outside 0x21..0x7E; check the minter")]
    Credential,
}
