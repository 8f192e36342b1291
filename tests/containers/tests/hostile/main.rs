//! What a guest may try, and what must hold whatever it tries: attempts against the walls of the docker provider, under the
//! runtime that `PLIMSOLL_TEST_RUNTIME` names. Each test is one attempt or one family of them; none knows how a wall is made.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod artifacts;
mod broker;
mod disk;
mod kit;
mod life;
mod memory;
mod neighbours;
mod output;
mod processes;
mod secrets;
#[path = "../containers/support.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod support;
mod walls;
