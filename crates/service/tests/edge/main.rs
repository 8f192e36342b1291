//! The edge over real sockets, with a handler that runs nothing: transport, binding,
//! authentication and HTTP.

#![expect(
    clippy::unwrap_used,
    clippy::mem_forget,
    reason = "a test stops at the first thing that is not as it should be"
)]

mod binding;
mod bodies;
mod grpc;
mod http2;
mod lifecycle;
mod requests;
mod support;
mod tls;
mod unread;
