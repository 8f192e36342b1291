//! The Rust client of a plimsoll daemon: code goes in, runs in a fresh sandbox, and every answer is checked before it is
//! believed.
//!
//! ```no_run
//! use plimsoll_client::{Client, Tier};
//! use std::time::Duration;
//!
//! # async fn example(token: String) -> Result<(), plimsoll_client::Error> {
//! let client = Client::builder("https://plimsoll.example").token(token).build()?;
//! let result = client
//!     .run_javascript("console.log(6 * 7)")
//!     .floor(Tier::Process)
//!     .timeout(Duration::from_secs(5))
//!     .send()
//!     .await?;
//! assert_eq!(result.stdout_text(), "42\n");
//! assert_eq!(result.exit_code, 0);
//! println!("ran behind {}", result.evidence.isolation);
//! # Ok(())
//! # }
//! ```
//!
//! # The floor cannot be forgotten
//!
//! A run is sent with `.floor(tier)` or, in so many words, with `.any_tier()`. `send` exists on no other call:
//!
//! ```compile_fail,E0599
//! # async fn example(client: plimsoll_client::Client) {
//! client.run_javascript("console.log(6 * 7)").send().await;
//! # }
//! ```
//!
//! # What is checked
//!
//! - Before sending: every limit of the daemon, with the daemon's own code.
//! - On an answer: that it names this very request; that it is strict JSON; that its run record is of the version this
//!   client checks, and its digests, evidence and software are those of the request and the answer; that it holds the kind
//!   of result that was asked for; that the tier is at least the floor.
//! - On an error: that it names this very request before anything but its code and message is believed.
//!
//! # Did anything run?
//!
//! [`Error::not_dispatched`] answers that for every error: `Some(reason)` means nothing of the call ran, `None` means it
//! may have run. The client never retries by itself.
//!
//! ```no_run
//! # async fn example(client: plimsoll_client::Client) {
//! use plimsoll_client::{ErrorKind, Refusal, Tier};
//!
//! match client.run_javascript("console.log(1)").floor(Tier::Vm).send().await {
//!     Ok(result) => println!("{}", result.stdout_text()),
//!     Err(error) if error.not_dispatched() == Some(Refusal::Capacity) => println!("try again later"),
//!     Err(error) if error.kind() == ErrorKind::InsufficientIsolation => println!("this daemon has no such wall"),
//!     Err(error) => println!("{error}"),
//! }
//! # }
//! ```
//!
//! # Transport
//!
//! One HTTP/1.1 connection per call, closed after it; `https` with rustls, `http` only to loopback hosts unless
//! [`ClientBuilder::insecure_http`] allows it. One deadline ([`ClientBuilder::request_timeout`]) lies over the whole
//! exchange. Redirects are not followed, proxy settings of the environment are not read, nothing is logged. Dropping a
//! call's future, or a [`CancelToken`], closes its socket at once.
//!
//! # Several daemons
//!
//! [`placement`] sends a call to the first of several daemons that can take it, and to the next one only while it is certain
//! that nothing ran.
//!
//! # Features
//!
//! - `blocking` adds `blocking::Client`, the same client for programs without an async runtime.
//! - `connector` adds [`ClientBuilder`]`::connector`: connections that are not the system's TCP, such as a tunnel or the network of
//!   a simulation.

#![forbid(unsafe_code)]

mod answer;
#[cfg(feature = "blocking")]
pub mod blocking;
mod call;
mod cancel;
mod client;
#[cfg(doctest)]
mod compile_fail;
#[cfg(feature = "connector")]
mod connect;
mod error;
mod info;
pub mod placement;
mod results;
mod session;
mod stream;
mod transport;
mod url;

pub use call::{
    FloorMissing, FloorStated, ModuleRequest, ProjectRequest, RunCall, RunResultKind, TakesGrant, with_trace_id,
};
pub use cancel::CancelToken;
pub use client::{Client, ClientBuilder, Describe, Exchange};
#[cfg(feature = "connector")]
pub use connect::{Connect, Connecting, Stream};
pub use error::{Error, ErrorKind, Refusal};
pub use info::Info;
pub use plimsoll_core::limits::{MAX_RESPONSE_BYTES, PROTOCOL, RECORD_VERSION};
pub use plimsoll_core::{
    AdviceFinding, Artifact, Code, Diagnostics, Limit, ModuleRowResult, Payload, PayloadEnvironment, PayloadKind,
    ProjectOutcome, Resources, RunRequest, SessionEnd, SessionEnded, SoftwareRule, StepResult, Tier, Trap,
};
pub use plimsoll_record::{ChainFault, RunRecord, verify_chain};
pub use results::{CellResult, Evidence, JavaScriptResult, ModuleResult, ProjectResult, RunOutput, meets};
pub use session::{CellRequest, Closed, NotClosed, OpenSession, Session, SessionCall, SessionSummary};
// The type `ClientBuilder::tls` takes, in the version this client is built with.
pub use rustls;
