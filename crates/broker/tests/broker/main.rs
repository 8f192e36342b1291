//! The broker against upstreams that are scripted on raw sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod breaker;
mod calls;
mod dialling;
mod faults;
mod guest;
mod hostile;
mod lifetime;
mod limits;
mod programs;
mod socket;
mod support;
mod targets;
mod tls;
