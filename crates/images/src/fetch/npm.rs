//! npm packages, through `npm pack`: the archives as the registry has them, and no script of theirs run.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use fs_err as fs;
use serde::Deserialize;
use sha2::{Digest as _, Sha512};

use super::Client;
use crate::digest::Hash;
use crate::error::{ImagesError, Progress};
use crate::lock::{Kind, Locked};
use crate::store::Store;

const NPM: Client = Client {
    program: "npm",
    doing: "fetch npm packages",
    fix: "install Node.js with npm 10 or later",
};

/// How many packages are asked for at a time; a command line has its limits, and progress should show.
const AT_A_TIME: usize = 30;

/// What `npm pack --json` says: a list, or in newer versions one object with the packages by name.
#[derive(Deserialize)]
#[serde(untagged)]
enum PackedAll {
    List(Vec<Packed>),
    ByName(BTreeMap<String, Packed>),
}

/// What it says about one package.
#[derive(Deserialize)]
struct Packed {
    name: String,
    version: String,
    filename: String,
}

/// The parts of a `package-lock.json` that say what goes where.
#[derive(Deserialize)]
struct PackageLock {
    packages: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: Option<String>,
    version: Option<String>,
    integrity: Option<String>,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    dev: bool,
    #[serde(default)]
    link: bool,
    #[serde(default)]
    in_bundle: bool,
    os: Option<Names>,
    cpu: Option<Names>,
    libc: Option<Names>,
}

/// A list of names, which packages also write as one name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    fn list(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// One package of a `package-lock.json`.
struct Wanted {
    name: String,
    version: String,
    integrity: Option<String>,
    places: Vec<String>,
}

/// Downloads what the store does not hold yet.
pub(crate) fn fetch(store: &Store, wanted: &[Locked], progress: Progress<'_>) -> Result<(), ImagesError> {
    let missing: Vec<&Locked> = wanted
        .iter()
        .filter(|package| !store.has_package(package.sha256))
        .collect();
    let ids: Vec<String> = missing.iter().map(|package| package.id()).collect();
    pack(store, &ids, progress)?;
    super::all_there(store, missing)
}

/// What these packages need, all told, at the newest versions that fit: names with versions or ranges, as npm takes them.
pub(crate) fn resolve(store: &Store, specs: &[String], progress: Progress<'_>) -> Result<Vec<Locked>, ImagesError> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    progress(&format!("resolving {}", specs.join(" ")));
    let scratch = store.scratch()?;
    fs::write(scratch.path().join("package.json"), r#"{"private":true}"#)?;
    let mut args: Vec<String> = [
        "install",
        "--package-lock-only",
        "--save-exact",
        "--ignore-scripts",
        "--omit=dev",
        "--no-fund",
        "--no-audit",
        "--",
    ]
    .map(str::to_owned)
    .into();
    args.extend(specs.iter().cloned());
    NPM.run(scratch.path(), "resolve the packages", args)?;
    from_package_lock(store, &scratch.path().join("package-lock.json"), progress)
}

/// The packages of a `package-lock.json`, downloaded and checked against it: what `npm ci --omit=dev` would install on
/// Linux for 64-bit x86 with glibc.
pub(crate) fn from_package_lock(
    store: &Store,
    file: &Path,
    progress: Progress<'_>,
) -> Result<Vec<Locked>, ImagesError> {
    let name = file.display().to_string();
    let lock: PackageLock =
        serde_json::from_slice(&fs::read(file)?).map_err(|error| ImagesError::recipe(&name, error))?;
    let wanted = wanted(&name, lock)?;
    let ids: Vec<String> = wanted
        .iter()
        .map(|one| format!("{}@{}", one.name, one.version))
        .collect();
    let hashes = pack(store, &ids, progress)?;
    wanted
        .into_iter()
        .zip(ids)
        .map(|(one, id)| {
            let sha256 = hashes
                .get(&id)
                .copied()
                .ok_or_else(|| ImagesError::package(&id, "npm did not bring it"))?;
            if let Some(integrity) = &one.integrity {
                check_integrity(&id, &store.package(sha256, &id)?, integrity)?;
            }
            Ok(Locked {
                kind: Kind::Npm,
                name: one.name,
                version: one.version,
                sha256,
                places: one.places,
            })
        })
        .collect()
}

/// Brings the archives of these packages into the store, and says which hash each has.
fn pack(store: &Store, ids: &[String], progress: Progress<'_>) -> Result<BTreeMap<String, Hash>, ImagesError> {
    let mut hashes = BTreeMap::new();
    for (index, some) in ids.chunks(AT_A_TIME).enumerate() {
        let done = index * AT_A_TIME;
        progress(&format!(
            "fetching npm packages {} to {} of {}",
            done + 1,
            done + some.len(),
            ids.len()
        ));
        let scratch = store.scratch()?;
        let mut args: Vec<String> = ["pack", "--json", "--ignore-scripts", "--loglevel=error", "--"]
            .map(str::to_owned)
            .into();
        args.extend(some.iter().cloned());
        let said = NPM.run(scratch.path(), "download the packages", args)?;
        let packed: PackedAll = serde_json::from_slice(&said).map_err(|error| ImagesError::Client {
            client: NPM.program,
            doing: "say what it downloaded".to_owned(),
            said: error.to_string(),
        })?;
        let packed = match packed {
            PackedAll::List(list) => list,
            PackedAll::ByName(packages) => packages.into_values().collect(),
        };
        for one in packed {
            // npm names the file after the package, a scope's slash spelled as a dash; older versions say it wrong.
            let named = one.filename.trim_start_matches('@').replace('/', "-");
            let hash = store.keep_package(&scratch.path().join(named))?;
            hashes.insert(format!("{}@{}", one.name, one.version), hash);
        }
    }
    Ok(hashes)
}

fn wanted(file: &str, lock: PackageLock) -> Result<Vec<Wanted>, ImagesError> {
    let mut wanted: BTreeMap<(String, String), Wanted> = BTreeMap::new();
    for (place, entry) in lock.packages {
        // A bundled package comes inside the archive of the one that bundles it.
        if place.is_empty() || entry.dev || entry.in_bundle || (entry.optional && !entry.fits_image()) {
            continue;
        }
        if entry.link || !place.starts_with("node_modules/") {
            return Err(ImagesError::recipe(
                file,
                format!("{place} is a folder of the project, not a package of a registry: publish or pack it first"),
            ));
        }
        let inside = || {
            place
                .rsplit_once("node_modules/")
                .map_or(place.as_str(), |(_, name)| name)
                .to_owned()
        };
        let name = entry.name.clone().unwrap_or_else(inside);
        let Some(version) = entry.version else {
            return Err(ImagesError::recipe(file, format!("{place} has no version")));
        };
        wanted
            .entry((name.clone(), version.clone()))
            .or_insert(Wanted {
                name,
                version,
                integrity: entry.integrity,
                places: Vec::new(),
            })
            .places
            .push(place);
    }
    Ok(wanted.into_values().collect())
}

impl Entry {
    /// Whether the package is one for the images' platform.
    fn fits_image(&self) -> bool {
        let fits = |names: &Option<Names>, own: &str| {
            names.as_ref().map(Names::list).is_none_or(|list| {
                let named = |name: &String| name == own || name == "any";
                let excluded = list.iter().any(|name| name.strip_prefix('!') == Some(own));
                !excluded && (list.iter().any(named) || list.iter().all(|name| name.starts_with('!')))
            })
        };
        fits(&self.os, "linux") && fits(&self.cpu, "x64") && fits(&self.libc, "glibc")
    }
}

/// Checks the strongest hash that npm's lock states.
fn check_integrity(id: &str, bytes: &[u8], integrity: &str) -> Result<(), ImagesError> {
    let stated = integrity
        .split_ascii_whitespace()
        .find_map(|one| one.strip_prefix("sha512-"));
    let Some(stated) = stated else {
        // Old packages have a SHA-1 only, which proves nothing; our own lock holds the SHA-256 from here on.
        return Ok(());
    };
    let actual = base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes));
    if actual == stated {
        return Ok(());
    }
    Err(ImagesError::package(
        id,
        "the archive does not have the integrity that the package lock states",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Wanted>, ImagesError> {
        wanted("package-lock.json", serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_package_lock_gives_each_package_once_with_its_places() {
        let wanted = read(
            r#"{"packages": {
              "": {"dependencies": {"a": "1"}},
              "node_modules/a": {"version": "1.0.0", "integrity": "sha512-x"},
              "node_modules/@s/b": {"version": "2.0.0"},
              "node_modules/a/node_modules/c": {"version": "3.0.0"},
              "node_modules/@s/b/node_modules/c": {"version": "3.0.0"},
              "node_modules/alias": {"name": "real", "version": "4.0.0"},
              "node_modules/a/node_modules/bundled": {"version": "1.0.0", "inBundle": true},
              "node_modules/d": {"version": "5.0.0", "dev": true},
              "node_modules/mac": {"version": "6.0.0", "optional": true, "os": ["darwin"]},
              "node_modules/musl": {"version": "6.0.0", "optional": true, "os": "linux", "libc": "musl"},
              "node_modules/not-windows": {"version": "6.0.0", "optional": true, "os": ["!win32"], "cpu": ["x64"]}
            }}"#,
        )
        .unwrap();
        let seen: Vec<(String, usize)> = wanted
            .iter()
            .map(|one| (format!("{}@{}", one.name, one.version), one.places.len()))
            .collect();
        let expected = [
            ("@s/b@2.0.0", 1),
            ("a@1.0.0", 1),
            ("c@3.0.0", 2),
            ("not-windows@6.0.0", 1),
            ("real@4.0.0", 1),
        ];
        assert_eq!(seen, expected.map(|(id, places)| (id.to_owned(), places)));
        assert_eq!(wanted[4].places, ["node_modules/alias"]);
    }

    #[test]
    fn folders_of_the_project_are_refused() {
        for text in [
            r#"{"packages": {"node_modules/w": {"link": true}}}"#,
            r#"{"packages": {"packages/w": {"version": "1.0.0"}}}"#,
        ] {
            let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("not a package of a registry"), "{error}");
        }
    }

    #[test]
    fn an_archive_that_is_not_the_locked_one_is_refused() {
        let integrity = format!(
            "sha1-abc sha512-{}",
            base64::engine::general_purpose::STANDARD.encode(Sha512::digest(b"archive"))
        );
        check_integrity("a@1", b"archive", &integrity).unwrap();
        check_integrity("a@1", b"another", &integrity).unwrap_err();
    }
}
