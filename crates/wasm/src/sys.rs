//! The one unsafe step of this crate: trusting the machine code that this crate's own build script made.

#![expect(unsafe_code, reason = "machine code can only be loaded on trust")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use wasmtime::{Engine, Module};

/// The engine's machine code and memory image, made by the build script, without the pages that hold only zeros.
static PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/engine.pages"));

/// Where they belong.
static RUNS: Runs = include!(concat!(env!("OUT_DIR"), "/engine.runs"));

struct Runs {
    /// Size of the whole artifact, in bytes.
    size: u64,
    /// Offset and length of each run of kept pages, in the order of [`PAGES`].
    runs: &'static [(u64, usize)],
}

/// The engine's artifact in a sealed memory file: wasmtime maps code and memory image straight from it, and only the pages
/// that are used are ever touched. Loading it from a slice would copy all of it twice, which is most of what a one-shot
/// `plimsoll run` does.
pub(crate) fn sealed_artifact() -> std::io::Result<File> {
    let file = File::from(memfd_create(
        c"plimsoll-engine",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?);
    file.set_len(RUNS.size)?;
    let mut rest = PAGES;
    for (offset, length) in RUNS.runs {
        let (run, after) = rest.split_at(*length);
        file.write_all_at(run, *offset)?;
        rest = after;
    }
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
    )?;
    Ok(file)
}

/// Maps the artifact. Fails when it was made for another CPU baseline or other engine settings.
pub(crate) fn load(engine: &Engine, artifact: &File) -> wasmtime::Result<Module> {
    let file = artifact.try_clone()?;
    // SAFETY: `deserialize_open_file` demands bytes that wasmtime itself produced and that nobody changes while they are
    // mapped. `artifact` comes from `sealed_artifact`, the only caller's only source: its bytes are compiled into this
    // binary and come from `Engine::precompile_module` of the same wasmtime version (one pin in the workspace), run by our
    // build script; it has no name, and its seals forbid every later write. wasmtime checks version, target, CPU features
    // and settings before it uses them.
    unsafe { Module::deserialize_open_file(engine, file) }
}
