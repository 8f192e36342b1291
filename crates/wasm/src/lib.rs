//! The embedded wasm provider: JavaScript in a fresh QuickJS instance per run, tier process.
//!
//! The engine image (QuickJS, our C shim and the JavaScript world on top of it) is made by this crate's build script: compiled
//! to WebAssembly, started once, snapshotted, compiled ahead of time. At run time the artifact is mapped copy-on-write: every
//! run gets an instance nobody used before, and nothing but machine code is shared between runs. A session keeps such an
//! instance for its cells. A project is a run for each of its steps, over the same files.
//!
//! [`engine`] runs programs and knows nothing of tiers, grants or requests.

pub mod engine;

mod artifact;
mod bridges;
mod calls;
mod capture;
mod command;
mod file_calls;
mod files;
mod guest;
mod host_call;
mod image_config;
mod interpreter;
mod loaded;
mod project;
mod provider;
mod session;
mod smoke;
mod smoke_session;
mod stack;
mod sys;
mod ticker;

pub use provider::{DEFAULT_TIMEOUT, Wasm};

/// Opens what a process may only open of itself while it is dumpable: the kernel's map of its own pages, by which the memory of
/// sessions is measured and the pool restores no more pages than were written. Called before a daemon hardens itself; without
/// it, and as another user than root, both fall back to what costs more memory and time.
pub fn before_hardening() {
    sys::open_pages();
}

/// Licence notices of the works inside the embedded engine; they ship with every binary that holds it.
pub const NOTICES: &str = include_str!("../../../guest/quickjs/NOTICES.md");
