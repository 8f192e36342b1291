//! Where the engine image comes from: pinned, reproducible, no compiler linked.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_wasm::engine::Engine;

/// The pin moves only together with a deliberate change of the engine: its sources, our C or JavaScript, or the toolchain.
#[test]
fn the_embedded_image_is_the_pinned_one() {
    let pin = include_str!("../../engine.sha256").trim();
    assert_eq!(
        Engine::identity(),
        format!("quickjs-wasm:sha256:{pin}"),
        "the engine image changed; if that was meant, put its new hash into crates/wasm/engine.sha256"
    );
    assert_eq!(pin.len(), 64);
}

#[test]
fn nothing_that_is_linked_can_compile_wasm() {
    // What turns WebAssembly into machine code. The runtime shares small data-structure crates with it, which are fine.
    let compilers = [
        "cranelift-codegen",
        "cranelift-frontend",
        "wasmtime-internal-cranelift",
        "wasmtime-internal-winch",
    ];
    let linked = packages("normal");
    assert!(linked.contains("wasmtime"), "{linked:?}");
    assert!(compilers.iter().all(|name| !linked.contains(*name)), "{linked:?}");
    // The names are right: the build script's own graph has the compiler.
    let built_with = packages("normal,build");
    assert!(built_with.contains("cranelift-codegen") && built_with.contains("wasmtime-internal-cranelift"));
}

#[expect(clippy::disallowed_methods, reason = "the test asks Cargo what is linked")]
fn packages(edges: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--edges",
            edges,
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// Builds the image again in another folder, from another copy of the sources, and compares the module's bytes.
#[expect(clippy::disallowed_methods, reason = "the test runs the build script as Cargo does")]
#[test]
fn two_builds_from_two_folders_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("another place");
    copy_folder(&root().join("guest/quickjs"), &copy.join("guest/quickjs"));
    std::fs::create_dir_all(copy.join("crates/wasm/src")).unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir_all(&out).unwrap();
    let output = Command::new(env!("PLIMSOLL_BUILD_SCRIPT"))
        .env("CARGO_MANIFEST_DIR", copy.join("crates/wasm"))
        .env("OUT_DIR", &out)
        .env("TARGET", env!("PLIMSOLL_BUILD_TARGET"))
        .env("CARGO", env!("CARGO"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let identity = std::fs::read_to_string(out.join("engine.identity")).unwrap();
    assert_eq!(identity, Engine::identity());
    for name in ["engine.pages", "engine.runs"] {
        let again = std::fs::read(out.join(name)).unwrap();
        assert!(
            again == std::fs::read(Path::new(env!("PLIMSOLL_BUILD_OUT")).join(name)).unwrap(),
            "{name} differs"
        );
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[expect(clippy::disallowed_methods, reason = "a plain copy of a folder of sources")]
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
