//! The edge over real sockets, with a handler that runs nothing: the server's rows of spec 10 "Transport and binding" and
//! of spec 20 §22 "Authentication and HTTP".

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
