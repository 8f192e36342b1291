//! Projects: files in memory, `node FILE` steps, artifacts, called as a daemon calls them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod modules;
mod steps;
mod support;
