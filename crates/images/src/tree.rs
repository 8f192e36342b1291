//! The files of one layer, in memory.
//!
//! Packages are never unpacked onto the host: their entries go into this map and from there into a layer archive, so no
//! path in a package, however spelled, names a file of the host. What would surprise whoever unpacks the layer is refused
//! when it is put in: `..`, a path below a file or a link, devices, two different files under one name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest path of an entry, in bytes. Far above every real package; the layers of an engine end at 4096.
const MAX_PATH: usize = 1024;

/// The directories that Debian merged into `/usr`; packages still spell some files with the old name.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// One entry of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory with its permission bits.
    Directory {
        /// 0755, but for the few that a recipe opens.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Whether it may be executed: mode 0755, else 0644.
        executable: bool,
        /// What it holds.
        content: Arc<[u8]>,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as stored.
        target: String,
    },
}

/// Why an entry was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{path:?} {problem}")]
pub struct BadEntry {
    /// The path as the package spells it.
    pub path: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The entries of one layer by their path, without a leading slash.
///
/// Permissions are those of the image contract: every file and directory readable by all, no set-user-ID, set-group-ID
/// or sticky bit but those a recipe asks for, everything owned by root.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// An empty layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries in the order of their bytes, parents before children.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The entry at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The entry that a package means by this path.
    pub(crate) fn meant_by(&self, path: &str) -> Option<&Node> {
        self.nodes.get(&normal(path).ok()?)
    }

    /// The file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&Arc<[u8]>> {
        match self.nodes.get(path) {
            Some(Node::File { content, .. }) => Some(content),
            _ => None,
        }
    }

    /// Puts a file in.
    ///
    /// # Errors
    ///
    /// When the path leaves the root, leads through a file or a link, or names something else already.
    pub fn add_file(&mut self, path: &str, executable: bool, content: impl Into<Arc<[u8]>>) -> Result<(), BadEntry> {
        let content = content.into();
        self.add(path, Node::File { executable, content })
    }

    /// Puts a symbolic link in.
    ///
    /// # Errors
    ///
    /// As [`Tree::add_file`]; also when the target is empty or holds a control character.
    pub fn add_link(&mut self, path: &str, target: &str) -> Result<(), BadEntry> {
        if target.is_empty() || target.len() > MAX_PATH || target.chars().any(char::is_control) {
            return Err(bad(path, "is a link without a usable target"));
        }
        let target = target.to_owned();
        self.add(path, Node::Link { target })
    }

    /// Puts a directory in; one that is there keeps its mode.
    ///
    /// # Errors
    ///
    /// As [`Tree::add_file`].
    pub fn add_directory(&mut self, path: &str) -> Result<(), BadEntry> {
        let path = normal(path)?;
        if path.is_empty() {
            return Ok(());
        }
        self.add_parents(&path)?;
        match self.nodes.get(&path) {
            None => {
                self.nodes.insert(path, Node::Directory { mode: 0o755 });
                Ok(())
            }
            Some(Node::Directory { .. }) => Ok(()),
            Some(_) => Err(bad(
                &path,
                "is a directory in one package and something else in another",
            )),
        }
    }

    /// Puts a directory in with permission bits of its own.
    ///
    /// # Errors
    ///
    /// As [`Tree::add_file`].
    pub fn set_directory(&mut self, path: &str, mode: u32) -> Result<(), BadEntry> {
        self.add_directory(path)?;
        self.nodes.insert(normal(path)?, Node::Directory { mode });
        Ok(())
    }

    /// Makes a file executable; whether there is one.
    pub fn make_executable(&mut self, path: &str) -> bool {
        match self.nodes.get_mut(path) {
            Some(Node::File { executable, .. }) => {
                *executable = true;
                true
            }
            _ => false,
        }
    }

    /// Takes out what `unwanted` says, and the directories that are empty for that reason alone.
    pub fn remove(&mut self, unwanted: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.nodes.keys().filter(|path| unwanted(path)).cloned().collect();
        for path in gone {
            self.nodes.remove(&path);
            let mut parent = path.as_str();
            while let Some((above, _)) = parent.rsplit_once('/') {
                let directory = matches!(self.nodes.get(above), Some(Node::Directory { .. }));
                if !directory || self.has_children(above) {
                    break;
                }
                self.nodes.remove(above);
                parent = above;
            }
        }
    }

    /// Lays another layer over this one.
    pub(crate) fn cover(&mut self, upper: Self) {
        self.nodes.extend(upper.nodes);
    }

    /// Links the directories that Debian merged into `/usr`, for the lowest layer of an image.
    pub fn link_merged_directories(&mut self) {
        for name in MERGED {
            let target = format!("usr/{name}");
            self.nodes
                .entry(target.clone())
                .or_insert(Node::Directory { mode: 0o755 });
            self.nodes.insert(name.to_owned(), Node::Link { target });
        }
        self.nodes
            .entry("usr".to_owned())
            .or_insert(Node::Directory { mode: 0o755 });
    }

    fn add(&mut self, path: &str, node: Node) -> Result<(), BadEntry> {
        let path = normal(path)?;
        if path.is_empty() {
            return Err(bad(&path, "names the root itself"));
        }
        self.add_parents(&path)?;
        match self.nodes.get(&path) {
            None => {
                self.nodes.insert(path, node);
                Ok(())
            }
            Some(there) if *there == node => Ok(()),
            Some(_) => Err(bad(&path, "is in two packages with different content")),
        }
    }

    fn add_parents(&mut self, path: &str) -> Result<(), BadEntry> {
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            match self.nodes.get(parent) {
                None => {
                    self.nodes.insert(parent.to_owned(), Node::Directory { mode: 0o755 });
                }
                Some(Node::Directory { .. }) => {}
                Some(_) => return Err(bad(path, "lies below something that is no directory")),
            }
        }
        Ok(())
    }

    fn has_children(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.nodes
            .range(prefix.clone()..)
            .next()
            .is_some_and(|(first, _)| first.starts_with(&prefix))
    }
}

/// The path without leading `./` and `/`, moved into `/usr` where Debian moved it.
fn normal(path: &str) -> Result<String, BadEntry> {
    if path.len() > MAX_PATH {
        return Err(bad(path, "is longer than 1024 bytes"));
    }
    if path.chars().any(char::is_control) {
        return Err(bad(path, "holds a control character"));
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(bad(path, "leaves its package")),
            part => parts.push(part),
        }
    }
    if parts.first().is_some_and(|first| MERGED.contains(first)) {
        parts.insert(0, "usr");
    }
    Ok(parts.join("/"))
}

fn bad(path: &str, problem: &'static str) -> BadEntry {
    BadEntry {
        path: path.to_owned(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn old_names_of_merged_directories_end_in_usr() {
        let mut tree = Tree::new();
        tree.add_file("./bin/dash", true, *b"x").unwrap();
        tree.add_file("/lib/x86_64-linux-gnu/libc.so.6", false, *b"y").unwrap();
        tree.link_merged_directories();
        assert!(tree.file("usr/bin/dash").is_some());
        assert!(tree.file("usr/lib/x86_64-linux-gnu/libc.so.6").is_some());
        let target = "usr/bin".to_owned();
        assert_eq!(tree.get("bin"), Some(&Node::Link { target }));
    }

    #[test]
    fn no_path_leaves_the_root_or_passes_a_link() {
        let mut tree = Tree::new();
        tree.add_link("a", "/etc").unwrap();
        tree.add_file("f", false, *b"").unwrap();
        for path in [
            "../x",
            "x/../../y",
            "a/passwd",
            "f/x",
            "",
            "/",
            "x\0y",
            "x\ny",
            &"p".repeat(1025),
        ] {
            tree.add_file(path, false, *b"").expect_err(path);
        }
        tree.add_link("l", "").expect_err("an empty target");
        assert_eq!(paths(&tree), ["a", "f"]);
    }

    #[test]
    fn one_name_has_one_content() {
        let mut tree = Tree::new();
        tree.add_file("x/f", false, *b"1").unwrap();
        tree.add_file("x/f", false, *b"1").unwrap();
        tree.add_file("x/f", false, *b"2").expect_err("another content");
        tree.add_directory("x/f").expect_err("a directory over a file");
        tree.add_directory("x").unwrap();
    }

    #[test]
    fn removal_takes_the_directories_it_empties() {
        let mut tree = Tree::new();
        tree.add_file("usr/share/man/man1/a.1", false, *b"").unwrap();
        tree.add_file("usr/share/doc/a/copyright", false, *b"").unwrap();
        tree.add_directory("var/empty").unwrap();
        tree.remove(|path| path.starts_with("usr/share/man/man1/"));
        assert_eq!(
            paths(&tree),
            [
                "usr",
                "usr/share",
                "usr/share/doc",
                "usr/share/doc/a",
                "usr/share/doc/a/copyright",
                "var",
                "var/empty"
            ]
        );
    }
}
