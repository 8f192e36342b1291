//! The one unsafe step of this crate: trusting the machine code that this crate's own build script made.

#![expect(unsafe_code, reason = "machine code can only be loaded on trust")]

use wasmtime::{Engine, Module};

use crate::artifact::Artifact;

/// Maps the artifact. Fails when it was made for another CPU baseline or other engine settings.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> wasmtime::Result<Module> {
    let file = artifact.file()?;
    // SAFETY: `deserialize_open_file` demands bytes that wasmtime itself produced and that nobody changes while they are
    // mapped. An `Artifact` holds the bytes compiled into this binary, which come from `Engine::precompile_module` of the
    // same wasmtime version (one pin in the workspace), run by our build script. It is either a memory file whose seals
    // forbid every later write, or a read-only file in a folder that only this user can write, checked on the open
    // descriptors: whoever could change it could as well change this process. wasmtime checks version, target, CPU
    // features and settings before it uses them.
    unsafe { Module::deserialize_open_file(engine, file) }
}
