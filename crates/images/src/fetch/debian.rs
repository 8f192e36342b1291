//! Debian packages, through `apt-get` with a private state folder and the host's sources.

use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Client;
use crate::digest::Hash;
use crate::error::{ImagesError, Progress};
use crate::lock::{Kind, Locked};
use crate::recipe::Toolchain;
use crate::store::Store;

const APT_GET: Client = Client {
    program: "apt-get",
    doing: "fetch Debian packages",
    fix: "install the package apt (it needs no Debian underneath), or build on a Debian host and load the file of --out here",
};
const APT_CACHE: Client = Client {
    program: "apt-cache",
    ..APT_GET
};

/// How many packages are asked for at a time.
const AT_A_TIME: usize = 40;

/// Debian's packages as the sources of the host offer them now.
pub(crate) struct Debian {
    options: Vec<String>,
    folder: PathBuf,
}

impl Debian {
    /// Reads the package lists of the host's sources, or of `sources`, a file as in `/etc/apt/sources.list.d`.
    pub(crate) fn update(
        store: &Store,
        toolchain: &Toolchain,
        sources: Option<&Path>,
        progress: Progress<'_>,
    ) -> Result<Self, ImagesError> {
        progress("reading the package lists of Debian");
        let folder = store.apt();
        for name in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(folder.join(name))?;
        }
        // Nothing counts as installed, and nothing but this release of Debian itself may answer.
        fs::write(folder.join("status"), "")?;
        fs::write(folder.join("preferences"), preferences(&toolchain.debian))?;
        let at = |name: &str| folder.join(name).display().to_string();
        let mut options = vec![
            format!("Dir::State={}", at("state")),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::preferences={}", at("preferences")),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("APT::Architecture={}", toolchain.architecture),
            format!("APT::Architectures={}", toolchain.architecture),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::Retries=3".to_owned(),
            // A source that does not answer is a failure, not a reason to build from yesterday's list.
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        if let Some(sources) = sources {
            let path = fs::canonicalize(sources)?;
            // apt tells its two formats apart by the name.
            if path.extension().is_some_and(|extension| extension == "sources") {
                let parts = folder.join("sources.d");
                fs::create_dir_all(&parts)?;
                fs::copy(&path, parts.join("chosen.sources"))?;
                options.push("Dir::Etc::sourcelist=/dev/null".to_owned());
                options.push(format!("Dir::Etc::sourceparts={}", parts.display()));
            } else {
                options.push(format!("Dir::Etc::sourcelist={}", path.display()));
                options.push("Dir::Etc::sourceparts=/dev/null".to_owned());
            }
        }
        let debian = Self { options, folder };
        APT_GET.run(&debian.folder, "read the package lists", debian.args(&["-q", "update"]))?;
        Ok(debian)
    }

    /// The newest version of each package.
    pub(crate) fn resolve(&self, names: &[String], toolchain: &Toolchain) -> Result<Vec<Locked>, ImagesError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = self.args(&["show", "--no-all-versions"]);
        args.extend(names.iter().cloned());
        let text = APT_CACHE
            .run(&self.folder, "find the packages", args)
            .or_else(|error| match error {
                // apt-cache fails when one of the names is unknown; the loop below says which.
                ImagesError::Client { .. } => Ok(Vec::new()),
                error => Err(error),
            })?;
        let offered = stanzas(&String::from_utf8_lossy(&text))?;
        names
            .iter()
            .map(|name| {
                offered.iter().find(|package| package.name == *name).cloned().ok_or_else(|| {
                    ImagesError::package(
                        name,
                        format!(
                            "the package sources of this host do not offer it for Debian {}: name a file of sources that do with --apt-sources",
                            toolchain.debian
                        ),
                    )
                })
            })
            .collect()
    }

    /// Downloads what the store does not hold yet.
    pub(crate) fn fetch(&self, store: &Store, wanted: &[Locked], progress: Progress<'_>) -> Result<(), ImagesError> {
        let missing: Vec<&Locked> = wanted
            .iter()
            .filter(|package| !store.has_package(package.sha256))
            .collect();
        for (index, some) in missing.chunks(AT_A_TIME).enumerate() {
            let done = index * AT_A_TIME;
            progress(&format!(
                "fetching Debian packages {} to {} of {}",
                done + 1,
                done + some.len(),
                missing.len()
            ));
            let scratch = store.scratch()?;
            let mut args = self.args(&["-q", "download"]);
            args.extend(
                some.iter()
                    .map(|package| format!("{}={}", package.name, package.version)),
            );
            APT_GET.run(scratch.path(), "download the packages", args)?;
            for entry in fs::read_dir(scratch.path())? {
                store.keep_package(&entry?.path())?;
            }
        }
        super::all_there(store, missing)
    }

    fn args(&self, words: &[&str]) -> Vec<String> {
        let options = self.options.iter().flat_map(|option| ["-o".to_owned(), option.clone()]);
        options.chain(words.iter().map(|&word| word.to_owned())).collect()
    }
}

/// Only the release itself, its updates and its security updates, whatever else the host has sources of.
fn preferences(release: &str) -> String {
    let pin = |what: &str, priority: i32| format!("Package: *\nPin: release {what}\nPin-Priority: {priority}\n\n");
    ["", "-updates", "-security"]
        .map(|part| pin(&format!("o=Debian,n={release}{part}"), 990))
        .concat()
        + &pin("o=*", -1)
}

/// Reads what `apt-cache show` prints.
fn stanzas(text: &str) -> Result<Vec<Locked>, ImagesError> {
    let mut packages = Vec::new();
    for stanza in text.split("\n\n").filter(|stanza| !stanza.trim().is_empty()) {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        let (Some(name), Some(version), Some(hash)) = (field("Package"), field("Version"), field("SHA256")) else {
            continue;
        };
        let sha256 = Hash::try_from(hash).map_err(|problem| ImagesError::package(&name, problem))?;
        packages.push(Locked {
            kind: Kind::Deb,
            name,
            version,
            sha256,
            places: Vec::new(),
        });
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_is_read_from_the_words_of_apt_cache() {
        let hash = Hash::of(b"x");
        let text = format!(
            "Package: bash\nVersion: 5.2.15-2+b13\nDescription: shell\n Package: no\nSHA256: {hash}\n\nPackage: virtual\n\n"
        );
        let packages = stanzas(&text).unwrap();
        assert_eq!(packages.len(), 1);
        assert_eq!(
            (packages[0].id().as_str(), packages[0].sha256),
            ("bash 5.2.15-2+b13", hash)
        );
        stanzas("Package: a\nVersion: 1\nSHA256: short\n").unwrap_err();
    }

    #[test]
    fn only_the_release_itself_may_answer() {
        let text = preferences("bookworm");
        assert!(text.contains("Pin: release o=Debian,n=bookworm-security\nPin-Priority: 990\n"));
        assert!(text.ends_with("Pin: release o=*\nPin-Priority: -1\n\n"));
    }
}
