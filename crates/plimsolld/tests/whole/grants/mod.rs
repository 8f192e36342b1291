//! Grants through the real daemon: who may name a profile, what its API and its caller see, what log and metrics keep.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

pub(crate) mod api;
mod audit;
mod lookup;
mod metrics;
mod runs;
mod secrecy;
pub(crate) mod setup;
mod start;
