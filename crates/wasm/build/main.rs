//! Builds the engine image: QuickJS and the shim to WebAssembly, started once, snapshotted and compiled ahead of time.
//! Everything lands in `OUT_DIR`; nothing binary is committed.
//!
//! | Step | Module |
//! |---|---|
//! | find the pinned sources | `sources` |
//! | apply our patches | `patch` |
//! | C to one WebAssembly module | `compile` |
//! | the JavaScript it holds | `image` |
//! | start, snapshot, compile ahead of time | `snapshot` |
//! | leave out the artifact's empty pages | `sparse` |

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script reads its environment, files and tools directly, and speaks to Cargo on standard output"
)]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

mod compile;
mod image;
#[path = "../src/image_config.rs"]
mod image_config;
mod patch;
mod snapshot;
mod sources;
mod sparse;
mod sys;

fn main() -> Result<()> {
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let guest = manifest_dir.join("../../guest/quickjs");
    for watched in ["build", "src/image_config.rs", "../../guest/quickjs"] {
        println!("cargo::rerun-if-changed={}", manifest_dir.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=PATH");
    // For the test that runs this script again elsewhere and compares.
    let script = env::current_exe().context("finding this script's own path")?;
    let target = env::var("TARGET").context("TARGET is not set")?;
    println!("cargo::rustc-env=PLIMSOLL_BUILD_SCRIPT={}", script.display());
    println!("cargo::rustc-env=PLIMSOLL_BUILD_TARGET={target}");
    println!("cargo::rustc-env=PLIMSOLL_BUILD_OUT={}", out.display());
    build(&guest, &out, &target)
}

fn build(guest: &Path, out: &Path, target: &str) -> Result<()> {
    let sources = sources::locate(&guest.join("sources"))?;
    let toolchain = compile::Toolchain::find()?;

    let c_dir = out.join("c");
    compile::collect_sources(guest, &sources.quickjs, &c_dir)?;
    let modules = image::load(guest, &sources.node_modules)?;
    write_if_changed(&c_dir.join("modules.c"), image::c_table(&modules).as_bytes())?;
    let linked = out.join("linked.wasm");
    compile::compile(&toolchain, &c_dir, &out.join("objects"), &linked)?;

    let wasm = fs::read(&linked).context("reading linked.wasm")?;
    // The snapshot depends on the module, the artifact on the snapshot, the target and this script, whose own change makes
    // Cargo run it in a fresh state only if the key says so too.
    let key = hex(&Sha256::new_with_prefix(&wasm)
        .chain_update(target.as_bytes())
        .chain_update(snapshot::RECIPE)
        .finalize());
    let key_file = out.join("engine.key");
    let finished = [
        "engine.wasm",
        "engine.pages",
        "engine.runs",
        "engine.artifact",
        "engine.identity",
    ];
    if fs::read_to_string(&key_file).is_ok_and(|old| old == key) && finished.iter().all(|name| out.join(name).exists())
    {
        return Ok(());
    }
    let engine_wasm = snapshot::snapshot(&wasm)?;
    let machine_code = snapshot::compile_ahead(&engine_wasm, target)?;
    fs::write(out.join("engine.wasm"), &engine_wasm)?;
    fs::write(out.join("engine.artifact"), hex(&Sha256::digest(&machine_code)))?;
    let artifact = sparse::pack(&machine_code);
    fs::write(out.join("engine.pages"), artifact.pages)?;
    fs::write(out.join("engine.runs"), artifact.runs)?;
    fs::write(
        out.join("engine.identity"),
        format!("quickjs-wasm:sha256:{}", hex(&Sha256::digest(&engine_wasm))),
    )?;
    fs::write(key_file, key)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Keeps the modification time of files whose content did not change.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}
