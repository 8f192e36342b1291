//! Sessions behind the corridor, with a scripted provider: who may use them, how calls follow each other, what is replaced,
//! how they end, and what is never said.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod capacity;
#[path = "../common/mod.rs"]
mod common;
mod crowds;
mod drains;
mod ends;
mod faults;
mod opens;
mod payloads;
mod rests;
mod revoked;
mod support;
mod wire;
