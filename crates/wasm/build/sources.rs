//! Finds the third-party sources that `guest/quickjs/sources` pins. Cargo fetches them and checks their checksums against
//! the committed lock file; nothing of them is compiled by Cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// The folders the image is made from.
#[derive(Debug)]
pub(crate) struct Sources {
    /// QuickJS-ng's C files.
    pub(crate) quickjs: PathBuf,
    /// Node-shaped JavaScript modules.
    pub(crate) node_modules: PathBuf,
}

/// Asks Cargo where the pinned crates lie.
pub(crate) fn locate(manifest_dir: &Path) -> Result<Sources> {
    let cargo = env::var_os("CARGO").context("CARGO is not set")?;
    let manifest = manifest_dir.join("Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .output()
        .context("starting cargo to find the engine's sources")?;
    ensure!(
        output.status.success(),
        "cargo could not fetch the engine's sources ({}):\n{}",
        manifest.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    Ok(Sources {
        quickjs: crate_dir(&metadata, "rquickjs-sys")?.join("quickjs"),
        node_modules: crate_dir(&metadata, "wasm-rquickjs")?.join("skeleton/src/builtin"),
    })
}

fn crate_dir(metadata: &serde_json::Value, name: &str) -> Result<PathBuf> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    for package in packages {
        if package["name"] == name {
            let manifest = package["manifest_path"]
                .as_str()
                .context("a package without manifest_path")?;
            return Ok(Path::new(manifest)
                .parent()
                .context("a manifest without a folder")?
                .to_owned());
        }
    }
    bail!("crate {name} is not among the engine's pinned sources")
}
