//! What a valid caller of little privilege tries against another one: to see, slow, bill or impersonate it. Each attempt is a
//! test against the real daemon. Bob attacks, with a token and the scope to run; alice has sessions, a grant and runs.

#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod bill;
mod impersonate;
mod kit;
mod see;
mod sessions;
mod slow;
