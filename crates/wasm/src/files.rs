//! The files of a project or a session: a tree in memory, held by the host, so that every step or call sees the same one and it
//! outlives the instances. Guests reach it through one import; they have no other file system.

mod errno;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::ProjectFile;

pub(crate) use errno::Errno;

/// Most files and folders of one tree.
pub const MOST_FILES: usize = 10_000;

/// Where a program with files stands, and where the files of a request are written.
pub(crate) const WORK: &str = "/work";

/// Folders that are always there.
const FIXED: [&str; 3] = ["/", WORK, "/tmp"];

/// Longest path, in bytes: the longest of a request, below the work directory.
const LONGEST_PATH: usize = 1024 + WORK.len() + 1;

/// What an entry costs beside its name and its content, in bytes.
const ENTRY_COST: usize = 64;

/// What this many bytes take to be let go of is no matter; more are let go of elsewhere.
const MUCH: usize = 1 << 20;

/// A tree that several calls share, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<Tree>>);

impl Files {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the files of a request below the work directory, and the folders above them. Those before one that cannot be
    /// written stay.
    ///
    /// # Errors
    /// The number of that file, counted from 0, and why.
    pub(crate) fn place(&self, files: &[ProjectFile], limit: usize) -> Result<(), (usize, Errno)> {
        let mut tree = self.lock();
        files.iter().enumerate().try_for_each(|(number, file)| {
            let placed = tree.place(&format!("{WORK}/{}", file.path), file.content.as_bytes(), limit);
            placed.map_err(|error| (number, error))
        })
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *self.lock());
        Gone {
            bytes: gone.bytes,
            node: Some(gone.root),
        }
        .away();
    }

    /// What the tree holds, in bytes: contents, names, and a little for each entry.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

/// What a file holds. Copies of a file share it until one of them is written to.
pub(crate) type Content = Arc<Vec<u8>>;

#[derive(Debug)]
enum Node {
    File(Content),
    Folder(Children),
}

type Children = BTreeMap<String, Node>;

/// What was removed or replaced. It is let go of without recursion, for folders nest deeper than the stack of a guest's call may
/// have room for.
#[must_use = "much of it is to be let go of elsewhere"]
pub(crate) struct Gone {
    node: Option<Node>,
    bytes: usize,
}

impl Gone {
    const NOTHING: Self = Self { node: None, bytes: 0 };

    /// Lets go of it: on another thread if that takes a while, for this one serves other runs too.
    pub(crate) fn away(self) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if self.bytes > MUCH => drop(runtime.spawn_blocking(move || self.dismantle())),
            _ => self.dismantle(),
        }
    }

    /// The same, and waits until it is gone. The thread is free meanwhile.
    pub(crate) async fn gone(self) {
        match tokio::runtime::Handle::try_current() {
            // A task that only lets go has no other end.
            Ok(runtime) if self.bytes > MUCH => drop(runtime.spawn_blocking(move || self.dismantle()).await),
            _ => self.dismantle(),
        }
    }

    fn dismantle(self) {
        let mut left: Vec<Node> = self.node.into_iter().collect();
        while let Some(node) = left.pop() {
            if let Node::Folder(children) = node {
                left.extend(children.into_values());
            }
        }
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    File(usize),
    Folder,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Node,
    entries: usize,
    bytes: usize,
}

impl Default for Tree {
    fn default() -> Self {
        let fixed = FIXED.iter().filter_map(|path| path.strip_prefix('/'));
        let fixed = fixed.filter(|name| !name.is_empty());
        Self {
            root: Node::Folder(
                fixed
                    .map(|name| (name.to_owned(), Node::Folder(Children::new())))
                    .collect(),
            ),
            entries: 0,
            bytes: 0,
        }
    }
}

impl Tree {
    pub(crate) fn stat(&self, path: &str) -> Result<Stat, Errno> {
        Ok(match self.find(path)? {
            Node::File(content) => Stat::File(content.len()),
            Node::Folder(_) => Stat::Folder,
        })
    }

    pub(crate) fn read(&self, path: &str) -> Result<Content, Errno> {
        match self.find(path)? {
            Node::File(content) => Ok(Arc::clone(content)),
            Node::Folder(_) => Err(Errno::IsAFolder),
        }
    }

    /// Whether a file can be made or replaced with these many bytes, or get them at its end. The whole tree may hold `limit`
    /// bytes.
    pub(crate) fn room(&self, path: &str, length: usize, append: bool, limit: usize) -> Result<(), Errno> {
        let bytes = match self.stat(path) {
            Ok(Stat::Folder) => return Err(Errno::IsAFolder),
            Ok(Stat::File(size)) => self.bytes - if append { 0 } else { size } + length,
            Err(Errno::NotFound) => {
                let (parent, name) = split(checked(path)?)?;
                match self.find(parent)? {
                    Node::Folder(_) => self.room_for_entry()?,
                    Node::File(_) => return Err(Errno::NotAFolder),
                }
                self.bytes + length + cost(name)
            }
            Err(error) => return Err(error),
        };
        if bytes > limit && bytes > self.bytes {
            return Err(Errno::NoSpace);
        }
        Ok(())
    }

    /// Makes or replaces a file.
    pub(crate) fn write(&mut self, path: &str, content: Content, limit: usize) -> Result<Gone, Errno> {
        self.room(path, content.len(), false, limit)?;
        let length = content.len();
        let (children, name) = self.parent(path)?;
        let old = children.insert(name.to_owned(), Node::File(content));
        self.bytes += length;
        Ok(match old {
            Some(Node::File(old)) => {
                self.bytes -= old.len();
                Gone {
                    bytes: old.len(),
                    node: Some(Node::File(old)),
                }
            }
            other => {
                self.entries += 1;
                self.bytes += cost(name);
                Gone { node: other, bytes: 0 }
            }
        })
    }

    /// Adds to the end of a file for which [`Tree::room`] has found room. One whose content is shared is copied first.
    pub(crate) fn extend(&mut self, path: &str, more: &[u8]) -> Result<(), Errno> {
        let (children, name) = self.parent(path)?;
        match children.get_mut(name) {
            Some(Node::File(content)) => Arc::make_mut(content).extend_from_slice(more),
            Some(Node::Folder(_)) => return Err(Errno::IsAFolder),
            None => return Err(Errno::NotFound),
        }
        self.bytes += more.len();
        Ok(())
    }

    /// Makes or replaces a file with what another one holds.
    pub(crate) fn copy(&mut self, from: &str, to: &str, limit: usize) -> Result<Gone, Errno> {
        let content = self.read(from)?;
        if from == to {
            return Ok(Gone::NOTHING);
        }
        self.write(to, content, limit)
    }

    pub(crate) fn make_folder(&mut self, path: &str, limit: usize) -> Result<(), Errno> {
        match self.find(path) {
            Ok(_) => return Err(Errno::Exists),
            Err(Errno::NotFound) => {}
            Err(error) => return Err(error),
        }
        let (parent, name) = split(path)?;
        match self.find(parent)? {
            Node::Folder(_) => self.room_for_entry()?,
            Node::File(_) => return Err(Errno::NotAFolder),
        }
        let bytes = self.bytes + cost(name);
        if bytes > limit {
            return Err(Errno::NoSpace);
        }
        let (children, name) = self.parent(path)?;
        children.insert(name.to_owned(), Node::Folder(Children::new()));
        self.bytes = bytes;
        self.entries += 1;
        Ok(())
    }

    fn place(&mut self, path: &str, content: &[u8], limit: usize) -> Result<(), Errno> {
        // Where the folder is there already, looking at each above it would cost the square of the depth.
        if !matches!(self.stat(split(checked(path)?)?.0), Ok(Stat::Folder)) {
            for (at, _) in path.match_indices('/').skip(1) {
                match self.make_folder(&path[..at], limit) {
                    Ok(()) | Err(Errno::Exists) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.write(path, Arc::new(content.to_vec()), limit).map(Gone::away)
    }

    /// The names in a folder, in order, each after an `f` or a `d`, separated by NUL.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let Node::Folder(children) = self.find(path)? else {
            return Err(Errno::NotAFolder);
        };
        let mut names = Vec::new();
        for (name, node) in children {
            if !names.is_empty() {
                names.push(0);
            }
            names.push(if matches!(node, Node::Folder(_)) { b'd' } else { b'f' });
            names.extend_from_slice(name.as_bytes());
        }
        Ok(names)
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, limit: usize) -> Result<Gone, Errno> {
        let moved = self.find(from)?;
        if is_fixed(from) || is_fixed(to) {
            return Err(Errno::Busy);
        }
        if from == to {
            return Ok(Gone::NOTHING);
        }
        if to.strip_prefix(from).is_some_and(|below| below.starts_with('/')) {
            return Err(Errno::Invalid);
        }
        let (parent, name) = split(checked(to)?)?;
        match (moved, self.find(to)) {
            (Node::Folder(_), Ok(Node::File(_))) => return Err(Errno::NotAFolder),
            (Node::File(_), Ok(Node::Folder(_))) => return Err(Errno::IsAFolder),
            (Node::Folder(_), Ok(Node::Folder(below))) if !below.is_empty() => return Err(Errno::NotEmpty),
            (_, Ok(_)) => {}
            (_, Err(Errno::NotFound)) if matches!(self.find(parent)?, Node::File(_)) => return Err(Errno::NotAFolder),
            (_, Err(Errno::NotFound)) => {}
            (_, Err(error)) => return Err(error),
        }
        if to.len() + deepest(moved) > LONGEST_PATH {
            return Err(Errno::NameTooLong);
        }
        let grown = name.len().saturating_sub(split(from)?.1.len());
        if grown > 0 && self.bytes + grown > limit {
            return Err(Errno::NoSpace);
        }
        // Nothing can fail from here on, so what was there may go.
        let gone = self.take(to).unwrap_or(Gone::NOTHING);
        let (children, old) = self.parent(from)?;
        if let Some(node) = children.remove(old) {
            let (children, name) = self.parent(to)?;
            children.insert(name.to_owned(), node);
            self.bytes = self.bytes - cost(old) + cost(name);
        }
        Ok(gone)
    }

    pub(crate) fn remove_file(&mut self, path: &str) -> Result<Gone, Errno> {
        match self.stat(path)? {
            Stat::File(_) => self.take(path),
            Stat::Folder => Err(Errno::IsAFolder),
        }
    }

    pub(crate) fn remove_folder(&mut self, path: &str) -> Result<Gone, Errno> {
        match self.find(path)? {
            Node::File(_) => Err(Errno::NotAFolder),
            Node::Folder(_) if is_fixed(path) => Err(Errno::Busy),
            Node::Folder(children) if !children.is_empty() => Err(Errno::NotEmpty),
            Node::Folder(_) => self.take(path),
        }
    }

    /// Removes an entry and everything below it.
    pub(crate) fn remove_all(&mut self, path: &str) -> Result<Gone, Errno> {
        self.find(path)?;
        if is_fixed(path) {
            return Err(Errno::Busy);
        }
        self.take(path)
    }

    /// Takes an entry out, with what is below it.
    fn take(&mut self, path: &str) -> Result<Gone, Errno> {
        let (children, name) = self.parent(path)?;
        let node = children.remove(name).ok_or(Errno::NotFound)?;
        let (mut entries, mut bytes) = (1, cost(name));
        let mut left = vec![&node];
        while let Some(node) = left.pop() {
            match node {
                Node::File(content) => bytes += content.len(),
                Node::Folder(children) => {
                    entries += children.len();
                    bytes += children.keys().map(|name| cost(name)).sum::<usize>();
                    left.extend(children.values());
                }
            }
        }
        self.entries -= entries;
        self.bytes -= bytes;
        Ok(Gone {
            node: Some(node),
            bytes,
        })
    }

    fn find(&self, path: &str) -> Result<&Node, Errno> {
        let mut node = &self.root;
        for segment in checked(path)?[1..].split('/').filter(|segment| !segment.is_empty()) {
            node = match node {
                Node::Folder(children) => children.get(segment).ok_or(Errno::NotFound)?,
                Node::File(_) => return Err(Errno::NotAFolder),
            };
        }
        Ok(node)
    }

    /// The folder a path is in, and its last name.
    fn parent<'path>(&mut self, path: &'path str) -> Result<(&mut Children, &'path str), Errno> {
        let (above, name) = split(path)?;
        let mut node = &mut self.root;
        for segment in above[1..].split('/').filter(|segment| !segment.is_empty()) {
            node = match node {
                Node::Folder(children) => children.get_mut(segment).ok_or(Errno::NotFound)?,
                Node::File(_) => return Err(Errno::NotAFolder),
            };
        }
        match node {
            Node::Folder(children) => Ok((children, name)),
            Node::File(_) => Err(Errno::NotAFolder),
        }
    }

    fn room_for_entry(&self) -> Result<(), Errno> {
        if self.entries >= MOST_FILES {
            return Err(Errno::TooMany);
        }
        Ok(())
    }
}

fn cost(name: &str) -> usize {
    name.len() + ENTRY_COST
}

fn is_fixed(path: &str) -> bool {
    FIXED.contains(&path)
}

/// Bytes of the longest path below a node, from it on.
fn deepest(node: &Node) -> usize {
    let mut longest = 0;
    let mut left = vec![(node, 0)];
    while let Some((node, length)) = left.pop() {
        longest = longest.max(length);
        if let Node::Folder(children) = node {
            left.extend(children.iter().map(|(name, child)| (child, length + 1 + name.len())));
        }
    }
    longest
}

/// The path of the folder above, and the last name.
fn split(path: &str) -> Result<(&str, &str), Errno> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => Err(Errno::Invalid),
        Some(("", name)) => Ok(("/", name)),
        Some(parts) => Ok(parts),
    }
}

/// Absolute, normal, and not too long.
fn checked(path: &str) -> Result<&str, Errno> {
    if path == "/" {
        return Ok(path);
    }
    if path.len() > LONGEST_PATH {
        return Err(Errno::NameTooLong);
    }
    let Some(relative) = path.strip_prefix('/') else {
        return Err(Errno::Invalid);
    };
    let normal = relative
        .split('/')
        .all(|segment| !matches!(segment, "" | "." | "..") && !segment.contains('\0'));
    if normal { Ok(path) } else { Err(Errno::Invalid) }
}

#[cfg(test)]
mod tests;
