//! The broker: calls an API for a run that never holds its credential.
//!
//! One [`Broker`] serves one run. An adapter hands it what the guest sent, method, raw request target and body, and gets
//! back what the guest may see: a status, a content type and bytes. Everything else stays here: the origin, the credential,
//! the budgets, the breaker, the connections and the trace. Which channel the adapter serves makes no difference to any rule.
//!
//! The target that was approved is the target that is sent, byte for byte; nothing is decoded, cleaned or encoded between.
//! A call that is dropped, or that the end of the run cancels, takes its connection to the API with it: the broker spawns no
//! task. [`BrokerSocket`] is the adapter for containers; it spawns one task, and one a connection, and ends them.

mod answer;
mod broker;
mod client;
mod framing;
mod options;
mod tls;
mod upstream;

pub use answer::BrokerAnswer;
pub use broker::{Broker, MAX_CONCURRENT_CALLS, MAX_REQUEST_BODY, MAX_RESPONSE_BODY};
pub use client::{HOST_CALL_GLOBAL, node_client, node_module, python_client, snippet_client};
pub use framing::{BrokerSocket, GUEST_SOCKET, MAX_CONNECTIONS, SOCKET_NAME, SOCKET_VARIABLE};
pub use options::{BrokerError, BrokerOptions, CauseObserver};
pub use tls::{TlsError, system_tls};
pub use upstream::dial::{ResolveFuture, Resolver, SystemResolver};
