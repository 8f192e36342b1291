//! Python wheels, through `pip download`: built packages only, so no code of theirs runs on the host.

use std::path::Path;

use fs_err as fs;
use serde::Deserialize;

use crate::digest::Hash;
use crate::error::{ImagesError, Progress};
use crate::lock::{Kind, Locked};
use crate::recipe::Toolchain;
use crate::store::Store;

/// The platforms of the images' C library (2.36), newest first; a wheel for an older one fits too.
const PLATFORMS: [&str; 8] = [
    "manylinux_2_36_x86_64",
    "manylinux_2_35_x86_64",
    "manylinux_2_34_x86_64",
    "manylinux_2_31_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
];

const FIX: &str = "install Python 3 with pip 23 or later";

/// What `pip install --report` says.
#[derive(Deserialize)]
struct Report {
    install: Vec<Install>,
}

#[derive(Deserialize)]
struct Install {
    metadata: Metadata,
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct DownloadInfo {
    archive_info: Option<ArchiveInfo>,
}

#[derive(Deserialize)]
struct ArchiveInfo {
    hashes: Option<Hashes>,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

/// Downloads what the store does not hold yet.
pub(crate) fn fetch(
    store: &Store,
    toolchain: &Toolchain,
    wanted: &[Locked],
    progress: Progress<'_>,
) -> Result<(), ImagesError> {
    let missing: Vec<&Locked> = wanted
        .iter()
        .filter(|package| !store.has_package(package.sha256))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    progress(&format!("fetching {} Python wheels", missing.len()));
    let scratch = store.scratch()?;
    let lines: String = missing
        .iter()
        .map(|package| format!("{} --hash=sha256:{}\n", package.id(), package.sha256))
        .collect();
    fs::write(scratch.path().join("requirements.txt"), lines)?;
    let mut args = vec![
        "download",
        "--no-deps",
        "--require-hashes",
        "--quiet",
        "--dest",
        "wheels",
    ];
    args.extend(["--requirement", "requirements.txt"]);
    pip(scratch.path(), toolchain, "download the wheels", &args)?;
    for entry in fs::read_dir(scratch.path().join("wheels"))? {
        store.keep_package(&entry?.path())?;
    }
    super::all_there(store, missing)
}

/// What these packages need, all told, beside what is there already: names with versions or ranges, as pip takes them.
pub(crate) fn resolve(
    store: &Store,
    toolchain: &Toolchain,
    specs: &[String],
    there: &[Locked],
    progress: Progress<'_>,
) -> Result<Vec<Locked>, ImagesError> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    progress(&format!("resolving {}", specs.join(" ")));
    let scratch = store.scratch()?;
    let constraints: String = there.iter().map(|package| format!("{}\n", package.id())).collect();
    fs::write(scratch.path().join("constraints.txt"), constraints)?;
    // A file, so that no name can be read as an option.
    fs::write(scratch.path().join("requirements.txt"), specs.join("\n") + "\n")?;
    let mut args = vec![
        "install",
        "--dry-run",
        "--ignore-installed",
        "--quiet",
        "--target",
        "target",
    ];
    args.extend([
        "--report",
        "report.json",
        "--constraint",
        "constraints.txt",
        "--requirement",
        "requirements.txt",
    ]);
    pip(scratch.path(), toolchain, "resolve the packages", &args)?;
    let report: Report = serde_json::from_slice(&fs::read(scratch.path().join("report.json"))?)
        .map_err(|error| ImagesError::recipe("pip's report", error))?;
    let mut resolved = Vec::new();
    for one in report.install {
        let name = normal_name(&one.metadata.name);
        if there.iter().any(|package| package.name == name) {
            continue;
        }
        let hash = one.download_info.archive_info.and_then(|info| info.hashes?.sha256);
        let sha256 = hash
            .ok_or("pip states no hash of it")
            .and_then(Hash::try_from)
            .map_err(|problem| ImagesError::package(&name, problem))?;
        resolved.push(Locked {
            kind: Kind::Wheel,
            name,
            version: one.metadata.version,
            sha256,
            places: Vec::new(),
        });
    }
    Ok(resolved)
}

/// One spelling for a name, as PyPI compares them.
pub(crate) fn normal_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            other => normal.extend(other.to_lowercase()),
        }
    }
    normal
}

fn pip(folder: &Path, toolchain: &Toolchain, doing: &str, words: &[&str]) -> Result<(), ImagesError> {
    let abi = format!("cp{}", toolchain.python.version.replace('.', ""));
    let mut args = vec!["-m", "pip"];
    args.extend(words);
    args.extend([
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--no-input",
        "--implementation",
        "cp",
    ]);
    args.extend([
        "--python-version",
        &toolchain.python.version,
        "--abi",
        &abi,
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]);
    for platform in PLATFORMS {
        args.extend(["--platform", platform]);
    }
    let Some(output) = super::output("python3", folder, &args)? else {
        return Err(ImagesError::NoClient {
            client: "python3",
            doing: "fetch Python packages",
            fix: FIX,
        });
    };
    if output.status.success() {
        return Ok(());
    }
    let said = super::said(&output);
    let said = if said.contains("No module named pip") {
        FIX.to_owned()
    } else {
        said
    };
    Err(ImagesError::Client {
        client: "pip",
        doing: doing.to_owned(),
        said,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_pypi_does() {
        for (name, normal) in [
            ("Pillow", "pillow"),
            ("python_dateutil", "python-dateutil"),
            ("a.-_b", "a-b"),
        ] {
            assert_eq!(normal_name(name), normal);
        }
    }
}
