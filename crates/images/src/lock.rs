//! Lock files: which packages make an image, each by its hash.

use serde::{Deserialize, Serialize};

use crate::digest::Hash;

/// The packages of one image, without those of the image it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The image.
    pub image: String,
    /// Its packages, sorted by kind and name.
    pub packages: Vec<Locked>,
}

/// One package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// Where it comes from.
    pub kind: Kind,
    /// Its name there.
    pub name: String,
    /// Its version there.
    pub version: String,
    /// The hash of the file.
    pub sha256: Hash,
    /// npm: the directories it is unpacked to, relative to the directory of all packages' `node_modules`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The distribution.
    Deb,
    /// npm.
    Npm,
    /// PyPI.
    Wheel,
}

impl Locked {
    /// Name and version, as messages show them.
    #[must_use]
    pub fn id(&self) -> String {
        match self.kind {
            Kind::Deb => format!("{} {}", self.name, self.version),
            Kind::Npm => format!("{}@{}", self.name, self.version),
            Kind::Wheel => format!("{}=={}", self.name, self.version),
        }
    }
}

impl Lock {
    /// An image without packages.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            packages: Vec::new(),
        }
    }

    /// The packages of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Locked> {
        self.packages.iter().filter(move |package| package.kind == kind)
    }

    /// The version of a package, where there is exactly one.
    #[must_use]
    pub fn version(&self, kind: Kind, name: &str) -> Option<&str> {
        let mut versions = self.of(kind).filter(|package| package.name == name);
        match (versions.next(), versions.next()) {
            (Some(package), None) => Some(&package.version),
            // npm may hold an older version below a package that asks for it; the one at the top is meant.
            (Some(first), Some(second)) => [first, second]
                .into_iter()
                .chain(versions)
                .find(|package| package.places.contains(&format!("node_modules/{name}")))
                .map(|package| package.version.as_str()),
            (None, _) => None,
        }
    }

    /// The file's text: stable order, one line end at its end. One package is one line, so that a change of the file shows what it is.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut sorted = self.clone();
        sorted.packages.sort();
        let mut text = String::from("{\n");
        text.push_str(&format!(
            "  \"image\": {},\n  \"packages\": [\n",
            serde_json::json!(sorted.image)
        ));
        let lines: Vec<String> = sorted
            .packages
            .iter()
            .filter_map(|package| serde_json::to_string(package).ok())
            .map(|line| format!("    {line}"))
            .collect();
        text.push_str(&lines.join(",\n"));
        text.push_str("\n  ]\n}\n");
        text
    }

    /// One line for each package in which `newer` differs, in the words of a lock change.
    #[must_use]
    pub fn changes(&self, newer: &Self) -> Vec<String> {
        let same = |one: &Locked, other: &Locked| {
            (one.kind, &one.name, &one.places) == (other.kind, &other.name, &other.places)
        };
        let mut lines = Vec::new();
        for new in &newer.packages {
            match self.packages.iter().find(|old| same(old, new)) {
                None => lines.push(format!("{} is new", new.id())),
                Some(old) if old.version != new.version => {
                    lines.push(format!("{} {} is now {}", old.name, old.version, new.version));
                }
                Some(old) if old.sha256 != new.sha256 => {
                    lines.push(format!(
                        "{} has another hash: {} was {}",
                        new.id(),
                        new.sha256,
                        old.sha256
                    ));
                }
                Some(_) => {}
            }
        }
        for old in &self.packages {
            if !newer.packages.iter().any(|new| same(old, new)) {
                lines.push(format!("{} is gone", old.id()));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(kind: Kind, name: &str, version: &str, places: &[&str]) -> Locked {
        Locked {
            kind,
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: Hash::of(format!("{name}{version}").as_bytes()),
            places: places.iter().map(|&place| place.to_owned()).collect(),
        }
    }

    #[test]
    fn the_text_is_sorted_and_reads_back() {
        let lock = Lock {
            image: "x".to_owned(),
            packages: vec![
                package(Kind::Wheel, "numpy", "2", &[]),
                package(Kind::Npm, "tsx", "4", &["node_modules/tsx"]),
                package(Kind::Deb, "bash", "5", &[]),
            ],
        };
        let back: Lock = serde_json::from_str(&lock.to_text()).unwrap();
        let names: Vec<&str> = back.packages.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["bash", "tsx", "numpy"]);
        assert_eq!(back.to_text(), lock.to_text());
        assert_eq!(lock.changes(&back), [""; 0]);
    }

    #[test]
    fn changes_name_what_changed_and_how() {
        let old = Lock {
            image: "x".to_owned(),
            packages: vec![
                package(Kind::Deb, "bash", "5", &[]),
                package(Kind::Deb, "dash", "1", &[]),
            ],
        };
        let mut rehashed = package(Kind::Deb, "dash", "1", &[]);
        rehashed.sha256 = Hash::of(b"");
        let new = Lock {
            image: "x".to_owned(),
            packages: vec![
                package(Kind::Deb, "bash", "6", &[]),
                rehashed,
                package(Kind::Npm, "a", "1", &[]),
            ],
        };
        let lines = old.changes(&new);
        assert_eq!(lines[0], "bash 5 is now 6");
        assert!(
            lines[1].starts_with("dash 1 has another hash: e3b0c442"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "a@1 is new");
        assert_eq!(new.changes(&old)[2], "a@1 is gone");
    }

    #[test]
    fn the_version_at_the_top_is_the_one_meant() {
        let lock = Lock {
            image: "x".to_owned(),
            packages: vec![
                package(Kind::Npm, "ms", "1", &["node_modules/a/node_modules/ms"]),
                package(Kind::Npm, "ms", "2", &["node_modules/ms"]),
            ],
        };
        assert_eq!(lock.version(Kind::Npm, "ms"), Some("2"));
        assert_eq!(lock.version(Kind::Deb, "ms"), None);
    }
}
