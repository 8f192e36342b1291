//! Images with packages of the operator's own: a run never installs anything, so they are part of the image.

use std::path::Path;

use crate::build::{add_npm, add_wheels, keep_lists, tree_of, write_layer};
use crate::built::Built;
use crate::compile;
use crate::error::{ImagesError, Progress};
use crate::fetch::{npm, wheels};
use crate::lock::{Kind, Lock, Locked};
use crate::recipe::Toolchain;
use crate::sbom::Licences;
use crate::store::Store;
use crate::tag::Tag;
use crate::tree::Tree;
use crate::unpack;

/// What to derive.
#[derive(Clone, Copy)]
pub struct DeriveOptions<'a> {
    /// The image to stand on, as it was built: name and tag.
    pub from: &'a Tag,
    /// What the new one is called.
    pub tag: &'a Tag,
    /// npm packages at versions or ranges, e.g. `zod@4.1.5`.
    pub npm: &'a [String],
    /// A `package-lock.json` to take npm packages from instead.
    pub npm_lock: Option<&'a Path>,
    /// Python packages at versions or ranges, e.g. `pydantic==2.11.7`.
    pub pip: &'a [String],
    /// Where the lines about long steps go.
    pub progress: Progress<'a>,
}

impl std::fmt::Debug for DeriveOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeriveOptions")
            .field("from", &self.from)
            .field("tag", &self.tag)
            .field("npm", &self.npm)
            .field("npm_lock", &self.npm_lock)
            .field("pip", &self.pip)
            .finish_non_exhaustive()
    }
}

/// Puts one layer on a built image: npm packages at `/node_modules`, where Node finds them from every folder, and Python
/// packages beside those of the image. No script of a package is run.
///
/// # Errors
///
/// When the image has not been built, a package cannot be fetched, or one holds what no image may hold.
pub fn derive(store: &Store, options: DeriveOptions<'_>) -> Result<Built, ImagesError> {
    check(options)?;
    let toolchain = Toolchain::shipped()?;
    let from = options.from.as_str();
    let below = store.built(from)?.ok_or_else(|| {
        ImagesError::Request(format!(
            "{from} has not been built here: `plimsoll images list` shows what has"
        ))
    })?;
    let python = has_python(&below, &toolchain);
    if !options.pip.is_empty() && !python {
        return Err(ImagesError::Request(format!(
            "{from} has no Python, so --pip needs another image: --from plimsoll/sandbox-python"
        )));
    }
    let mut lock = Lock::new(options.tag.as_str());
    lock.packages.extend(match options.npm_lock {
        Some(file) => npm::from_package_lock(store, file, options.progress)?,
        None => npm::resolve(store, options.npm, options.progress)?,
    });
    let there: Vec<Locked> = below
        .locks
        .iter()
        .flat_map(|lock| lock.of(Kind::Wheel).cloned())
        .collect();
    let pythons = wheels::resolve(store, &toolchain, options.pip, &there, options.progress)?;
    wheels::fetch(store, &toolchain, &pythons, options.progress)?;
    lock.packages.extend(pythons);
    lock.packages.sort();
    if lock.packages.is_empty() {
        return Err(ImagesError::Request(format!(
            "{from} has all of these packages already: there is nothing to add"
        )));
    }

    (options.progress)(&format!("{}: packing the packages", options.tag.as_str()));
    let (mut tree, mut licences) = (Tree::new(), Licences::new());
    add_npm(store, &lock, "", &mut tree, &mut licences)?;
    for package in lock.of(Kind::Npm) {
        for place in package
            .places
            .iter()
            .filter(|place| place.matches("node_modules/").count() == 1)
        {
            unpack::npm::link_commands(&mut tree, &package.id(), place, "node_modules/.bin")?;
        }
    }
    let site = toolchain.site_packages();
    add_wheels(store, &lock, &site, &mut tree, &mut licences)?;
    if lock.of(Kind::Wheel).next().is_some() {
        (options.progress)(&format!("{}: compiling the Python files", options.tag.as_str()));
        let version = &toolchain.python.version;
        let under = tree_of(store, &below.layers, |path| compile::is_needed(path, version))?;
        compile::compile(store, &under, &mut tree, &[site], version)?;
    }
    let names: Vec<String> = lock.packages.iter().map(Locked::id).collect();
    let mut layers = below.layers.clone();
    layers.push(write_layer(store, &title(&names), &tree, below.time)?);
    let mut locks = below.locks.clone();
    locks.push(lock);
    let built = Built::assemble(
        store,
        options.tag.as_str(),
        layers,
        below.env.clone(),
        below.time,
        locks,
    )?;
    keep_lists(store, &built, licences)?;
    Ok(built)
}

/// The history line: the first packages and how many more there are.
fn title(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(" "),
        count => format!("{} and {} more packages", names[..SHOWN].join(" "), count - SHOWN),
    }
}

fn has_python(built: &Built, toolchain: &Toolchain) -> bool {
    let name = format!("python{}-minimal", toolchain.python.version);
    built.locks.iter().any(|lock| lock.version(Kind::Deb, &name).is_some())
}

fn check(options: DeriveOptions<'_>) -> Result<(), ImagesError> {
    let request = |text: String| Err(ImagesError::Request(text));
    if options.npm.is_empty() && options.pip.is_empty() && options.npm_lock.is_none() {
        return request("nothing to add: name packages with --npm, --npm-lock or --pip".to_owned());
    }
    if !options.npm.is_empty() && options.npm_lock.is_some() {
        return request("--npm and --npm-lock cannot be used together: put the packages into the lock file".to_owned());
    }
    if options.tag.as_str() == options.from.as_str() {
        return request(format!(
            "--tag {} is the image it stands on: choose another name",
            options.tag.as_str()
        ));
    }
    for (option, specs) in [("--npm", options.npm), ("--pip", options.pip)] {
        if let Some(spec) = specs.iter().find(|spec| !is_registry_name(spec)) {
            return request(format!(
                "{option} {spec:?} is no package of a registry: write a name and a version or range, e.g. {}",
                if option == "--npm" {
                    "zod@4.1.5"
                } else {
                    "pydantic==2.11.7"
                }
            ));
        }
    }
    Ok(())
}

/// Whether this is a name, with or without a version, and nothing else that a package manager would take: an option, a
/// folder, an address.
fn is_registry_name(spec: &str) -> bool {
    let scoped = spec
        .strip_prefix('@')
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")));
    let name = match scoped {
        Some((scope, name)) if !scope.is_empty() => name,
        Some(_) => return false,
        None => spec,
    };
    let allowed = |one: char| one.is_ascii_alphanumeric() || "-_.@=<>!~^*,+[] |".contains(one);
    name.starts_with(|one: char| one.is_ascii_alphanumeric())
        && name.chars().all(allowed)
        && scoped.is_none_or(|(scope, _)| scope.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one)))
        // pip would read these as options of the requirement.
        && !spec.contains(" --")
        && ![".tgz", ".tar", ".whl", ".zip", ".gz"].iter().any(|end| spec.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_registry_are_taken() {
        for spec in [
            "zod",
            "zod@4.1.5",
            "@scope/pkg@^1.2",
            "pydantic==2.11.7",
            "uvicorn[standard]>=0.30,<1",
            "a@1 || 2",
        ] {
            assert!(is_registry_name(spec), "{spec}");
        }
        for spec in [
            "",
            "-g",
            "--index-url=x",
            "./x",
            "../x",
            "/x",
            "git+https://x/y",
            "https://x/y.tgz",
            "x.tgz",
            "user/repo",
            "file:x",
            "@/x",
            "@s",
            "a@npm:b",
            "a\n--pre",
            "a; import os",
            "x.whl",
            "a --pre",
        ] {
            assert!(!is_registry_name(spec), "{spec:?}");
        }
    }

    #[test]
    fn requests_that_make_no_sense_are_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (from, tag) = (Tag::parse("plimsoll/sandbox").unwrap(), Tag::parse("mine").unwrap());
        let zod = ["zod@4".to_owned()];
        let base = DeriveOptions {
            from: &from,
            tag: &tag,
            npm: &zod,
            npm_lock: None,
            pip: &[],
            progress: &|_| {},
        };
        let cases = [
            (DeriveOptions { npm: &[], ..base }, "nothing to add"),
            (
                DeriveOptions {
                    npm_lock: Some(Path::new("x")),
                    ..base
                },
                "together",
            ),
            (DeriveOptions { tag: &from, ..base }, "choose another name"),
            (base, "has not been built here"),
        ];
        for (options, expected) in cases {
            let error = derive(&store, options).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_history_line_stays_short() {
        let names: Vec<String> = (1..=7).map(|index| format!("p@{index}")).collect();
        assert_eq!(title(&names[..2]), "p@1 p@2");
        assert_eq!(title(&names), "p@1 p@2 p@3 p@4 p@5 and 2 more packages");
    }
}
