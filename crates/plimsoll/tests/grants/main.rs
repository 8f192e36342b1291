//! Grants through the facade and the real engine: the client a program finds, what its broker lets through, and the
//! minters of embedders.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod advice;
#[path = "../../../plimsolld/tests/whole/grants/api.rs"]
mod api;
mod client;
mod envelope;
mod gate;
mod globals;
mod mint;
mod setup;
