//! Installs gVisor's `runsc` and registers it with the container engine of this host.
//!
//! Two ways lead to the same end. The release archive is downloaded (or given as a file), compared with a pinned SHA-512
//! before anything is unpacked, and tried out against a throwaway configuration. The Go module is built here from a pinned
//! version whose checksum is compared first; it serves hosts that reach Go's module proxy and not the releases. Both end
//! with the version that the binary itself states, with an entry in the engine's configuration that loses nothing of the
//! operator's, and with the engine's own word that it knows the runtime.
//!
//! What is registered proves nothing about isolation: that is for the provider's preflight and smoke test, on the very
//! engine it talks to.

mod archive;
mod engine;
mod fetch;
mod install;
mod module;
mod pins;
mod place;
mod process;
mod register;

pub use archive::ArchiveError;
pub use engine::{EngineError, Reload};
pub use fetch::FetchError;
pub use install::{Error, Installed, Options, Placed, Source, install};
pub use module::ModuleError;
pub use pins::{Arch, ArchivePins, Executable, ModulePins, PinsError};
pub use place::PlaceError;
pub use process::ProcessError;
pub use register::{RUNTIME, RegisterError, merged};
