//! The shipped images, really built from their packages and really started. These tests need apt-get, npm, pip and their
//! sources; those that start a container need an engine at its usual socket, and fail without one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod container;
mod contents;
mod support;
mod uses;
