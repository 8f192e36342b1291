//! The docker provider behind the facade, against a real engine, under the runtime that `PLIMSOLL_TEST_RUNTIME` names.
//!
//! No test is left out under either runtime: where they differ, the difference is what is asserted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod artifacts;
mod embedder;
mod engine;
mod first_process;
mod grants;
mod guest_view;
mod images;
mod late_look;
mod leftovers;
mod own_engine;
mod pool;
mod projects;
mod python;
mod registered;
mod restarts;
mod session_pool;
mod snippets;
mod streams;
mod support;
mod upstream;
mod walls;
mod work_folder;
