//! The files of a session: a tree in memory, held by the host, so that every call of the session sees the same one and it
//! outlives the interpreter. Guests reach it through one import; they have no other file system.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most files and folders of one session. Looking through all of them takes a millisecond.
pub const MOST_FILES: usize = 10_000;

/// Longest path, in bytes: the longest of a request, below the root.
const LONGEST_PATH: usize = 1024 + 1;

/// What an entry costs beside its path and its content, in bytes.
const ENTRY_COST: usize = 64;

/// A refusal, as the number POSIX gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(i64);

pub(crate) const ENOENT: Errno = Errno(2);
const EBUSY: Errno = Errno(16);
pub(crate) const EEXIST: Errno = Errno(17);
pub(crate) const ENOTDIR: Errno = Errno(20);
const EISDIR: Errno = Errno(21);
pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const ENOSPC: Errno = Errno(28);
const ENAMETOOLONG: Errno = Errno(36);
/// There is no tree.
pub(crate) const ENOSYS: Errno = Errno(38);
const ENOTEMPTY: Errno = Errno(39);

impl Errno {
    /// As the import answers it: negative.
    pub(crate) fn answer(self) -> i64 {
        -self.0
    }

    /// Its name, for a refusal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ENOENT => "ENOENT",
            EBUSY => "EBUSY",
            EEXIST => "EEXIST",
            ENOTDIR => "ENOTDIR",
            EISDIR => "EISDIR",
            ENOSPC => "ENOSPC",
            ENAMETOOLONG => "ENAMETOOLONG",
            ENOSYS => "ENOSYS",
            ENOTEMPTY => "ENOTEMPTY",
            _ => "EINVAL",
        }
    }
}

/// A tree that several calls share, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<Tree>>);

impl Files {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        *self.lock() = Tree::default();
    }

    /// What the tree holds, in bytes: contents, paths, and a little for each entry.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

#[derive(Debug)]
enum Node {
    File(Vec<u8>),
    Folder,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    File(usize),
    Folder,
}

/// The tree, by absolute path. The root is always there and has no entry.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    bytes: usize,
}

impl Tree {
    pub(crate) fn stat(&self, path: &str) -> Result<Stat, Errno> {
        if path == "/" {
            return Ok(Stat::Folder);
        }
        match self.nodes.get(checked(path)?) {
            Some(Node::File(content)) => Ok(Stat::File(content.len())),
            Some(Node::Folder) => Ok(Stat::Folder),
            None => Err(self.missing(path)),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Result<&[u8], Errno> {
        match (self.stat(path)?, self.nodes.get(path)) {
            (Stat::File(_), Some(Node::File(content))) => Ok(content),
            _ => Err(EISDIR),
        }
    }

    /// Makes or replaces a file, or adds to its end. The whole tree may hold `limit` bytes.
    pub(crate) fn write(&mut self, path: &str, content: &[u8], append: bool, limit: usize) -> Result<(), Errno> {
        let old = match self.stat(path) {
            Ok(Stat::File(size)) => Some(size),
            Ok(Stat::Folder) => return Err(EISDIR),
            Err(ENOENT) => None,
            Err(error) => return Err(error),
        };
        if old.is_none() {
            self.parent(path)?;
            self.room_for_entry()?;
        }
        let gone = if append { 0 } else { old.unwrap_or(0) };
        let entry = if old.is_none() { path.len() + ENTRY_COST } else { 0 };
        let bytes = self.bytes - gone + content.len() + entry;
        if bytes > limit && bytes > self.bytes {
            return Err(ENOSPC);
        }
        self.bytes = bytes;
        match self.nodes.get_mut(path) {
            Some(Node::File(kept)) if append => kept.extend_from_slice(content),
            _ => drop(self.nodes.insert(path.to_owned(), Node::File(content.to_vec()))),
        }
        Ok(())
    }

    pub(crate) fn make_folder(&mut self, path: &str, limit: usize) -> Result<(), Errno> {
        match self.stat(path) {
            Ok(_) => return Err(EEXIST),
            Err(ENOENT) => self.parent(path)?,
            Err(error) => return Err(error),
        }
        self.add_folder(path, limit)
    }

    /// A folder that is not there, in one that is.
    fn add_folder(&mut self, path: &str, limit: usize) -> Result<(), Errno> {
        self.room_for_entry()?;
        let bytes = self.bytes + path.len() + ENTRY_COST;
        if bytes > limit {
            return Err(ENOSPC);
        }
        self.bytes = bytes;
        self.nodes.insert(path.to_owned(), Node::Folder);
        Ok(())
    }

    /// Writes a file and makes the folders above it.
    pub(crate) fn place(&mut self, path: &str, content: &[u8], limit: usize) -> Result<(), Errno> {
        let mut folders = checked(path)?.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
        // Below the first that is not there nothing is: looking for each would cost the square of the depth.
        while let Some(folder) = folders.next() {
            match self.nodes.get(folder) {
                Some(Node::Folder) => {}
                Some(Node::File(_)) => return Err(ENOTDIR),
                None => {
                    self.add_folder(folder, limit)?;
                    folders.by_ref().try_for_each(|deeper| self.add_folder(deeper, limit))?;
                }
            }
        }
        self.write(path, content, false, limit)
    }

    /// The names in a folder, in order, each after an `f` or a `d`, separated by NUL.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<u8>, Errno> {
        match self.stat(path)? {
            Stat::File(_) => return Err(ENOTDIR),
            Stat::Folder => {}
        }
        let mut names = Vec::new();
        for (below, node) in self.below(path) {
            let name = &below[prefix(path).len()..];
            if !name.contains('/') {
                if !names.is_empty() {
                    names.push(0);
                }
                names.push(if matches!(node, Node::Folder) { b'd' } else { b'f' });
                names.extend_from_slice(name.as_bytes());
            }
        }
        Ok(names)
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, limit: usize) -> Result<(), Errno> {
        let moved = self.stat(from)?;
        if from == "/" || to == "/" {
            return Err(EBUSY);
        }
        if from == to {
            return Ok(());
        }
        if to.starts_with(&prefix(from)) {
            return Err(EINVAL);
        }
        match (moved, self.stat(to)) {
            (Stat::Folder, Ok(Stat::File(_))) => return Err(ENOTDIR),
            (Stat::File(_), Ok(Stat::Folder)) => return Err(EISDIR),
            (Stat::Folder, Ok(Stat::Folder)) if self.below(to).next().is_some() => return Err(ENOTEMPTY),
            (_, Ok(_)) => {}
            (_, Err(ENOENT)) => self.parent(to)?,
            (_, Err(error)) => return Err(error),
        }
        let below: Vec<String> = self.below(from).map(|(path, _)| path.clone()).collect();
        let longest = below.iter().map(|path| path.len() - from.len()).max().unwrap_or(0);
        if to.len() + longest > LONGEST_PATH {
            return Err(ENAMETOOLONG);
        }
        let grown = to.len().saturating_sub(from.len()) * (below.len() + 1);
        if grown > 0 && self.bytes + grown > limit {
            return Err(ENOSPC);
        }
        // Nothing can fail from here on, so what was there may go.
        self.forget(to);
        for old in std::iter::once(from.to_owned()).chain(below) {
            if let Some(node) = self.nodes.remove(&old) {
                let new = format!("{to}{}", &old[from.len()..]);
                self.bytes = self.bytes - old.len() + new.len();
                self.nodes.insert(new, node);
            }
        }
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &str) -> Result<(), Errno> {
        match self.stat(path)? {
            Stat::File(_) => self.forget(path),
            Stat::Folder => return Err(EISDIR),
        }
        Ok(())
    }

    pub(crate) fn remove_folder(&mut self, path: &str) -> Result<(), Errno> {
        match self.stat(path)? {
            Stat::File(_) => return Err(ENOTDIR),
            Stat::Folder if path == "/" => return Err(EBUSY),
            Stat::Folder if self.below(path).next().is_some() => return Err(ENOTEMPTY),
            Stat::Folder => self.forget(path),
        }
        Ok(())
    }

    /// Removes an entry and everything below it.
    pub(crate) fn remove_all(&mut self, path: &str) -> Result<(), Errno> {
        self.stat(path)?;
        if path == "/" {
            return Err(EBUSY);
        }
        let below: Vec<String> = self.below(path).map(|(path, _)| path.clone()).collect();
        for path in below {
            self.forget(&path);
        }
        self.forget(path);
        Ok(())
    }

    fn forget(&mut self, path: &str) {
        if let Some(node) = self.nodes.remove(path) {
            let content = match node {
                Node::File(content) => content.len(),
                Node::Folder => 0,
            };
            self.bytes -= content + path.len() + ENTRY_COST;
        }
    }

    fn below(&self, path: &str) -> impl Iterator<Item = (&String, &Node)> {
        let prefix = prefix(path);
        self.nodes
            .range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(&prefix))
    }

    fn room_for_entry(&self) -> Result<(), Errno> {
        if self.nodes.len() >= MOST_FILES {
            return Err(ENOSPC);
        }
        Ok(())
    }

    /// The folder above exists.
    fn parent(&self, path: &str) -> Result<(), Errno> {
        match path.rfind('/') {
            Some(0) => Ok(()),
            Some(at) => match self.stat(&path[..at])? {
                Stat::Folder => Ok(()),
                Stat::File(_) => Err(ENOTDIR),
            },
            None => Err(EINVAL),
        }
    }

    /// Why nothing is there.
    fn missing(&self, path: &str) -> Errno {
        let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
        let mut above = above.filter(|above| matches!(self.nodes.get(*above), Some(Node::File(_))));
        above.next().map_or(ENOENT, |_| ENOTDIR)
    }
}

/// What the paths below a folder begin with.
fn prefix(path: &str) -> String {
    if path == "/" {
        path.to_owned()
    } else {
        format!("{path}/")
    }
}

/// Absolute, normal, and not too long.
fn checked(path: &str) -> Result<&str, Errno> {
    if path.len() > LONGEST_PATH {
        return Err(ENAMETOOLONG);
    }
    let Some(relative) = path.strip_prefix('/') else {
        return Err(EINVAL);
    };
    let normal = relative
        .split('/')
        .all(|segment| !matches!(segment, "" | "." | "..") && !segment.contains('\0'));
    if normal { Ok(path) } else { Err(EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn what_is_written_is_read_listed_moved_and_removed() {
        let mut tree = Tree::default();
        tree.place("/a/b/c.txt", b"one", LIMIT).unwrap();
        tree.write("/a/b/c.txt", b" two", true, LIMIT).unwrap();
        assert_eq!(tree.read("/a/b/c.txt"), Ok(&b"one two"[..]));
        tree.make_folder("/a/d", LIMIT).unwrap();
        tree.write("/a.txt", b"", false, LIMIT).unwrap();
        assert_eq!(tree.list("/").unwrap(), b"da\0fa.txt");
        assert_eq!(tree.list("/a").unwrap(), b"db\0dd");
        tree.rename("/a/b", "/a/d/e", LIMIT).unwrap();
        assert_eq!(tree.read("/a/d/e/c.txt"), Ok(&b"one two"[..]));
        assert_eq!(tree.stat("/a/b"), Err(ENOENT));
        tree.remove_all("/a").unwrap();
        tree.remove_file("/a.txt").unwrap();
        assert!(tree.nodes.is_empty() && tree.bytes == 0);
    }

    #[test]
    fn refusals_are_those_of_posix() {
        let mut tree = Tree::default();
        tree.place("/a/f", b"", LIMIT).unwrap();
        assert_eq!(tree.read("/a"), Err(EISDIR));
        assert_eq!(tree.read("/b"), Err(ENOENT));
        assert_eq!(tree.stat("/a/f/g"), Err(ENOTDIR));
        assert_eq!(tree.write("/b/f", b"", false, LIMIT), Err(ENOENT));
        assert_eq!(tree.write("/a", b"", false, LIMIT), Err(EISDIR));
        assert_eq!(tree.place("/a/f/g", b"", LIMIT), Err(ENOTDIR));
        assert_eq!(tree.make_folder("/a", LIMIT), Err(EEXIST));
        assert_eq!(tree.remove_folder("/a"), Err(ENOTEMPTY));
        assert_eq!(tree.remove_folder("/a/f"), Err(ENOTDIR));
        assert_eq!(tree.remove_all("/"), Err(EBUSY));
        assert_eq!(tree.rename("/a", "/a/b", LIMIT), Err(EINVAL));
        for path in ["a", "/a/../b", "/a//b", "/a/", "/a\0"] {
            assert_eq!(tree.stat(path), Err(EINVAL), "{path}");
        }
        assert_eq!(tree.stat(&format!("/{}", "x".repeat(LONGEST_PATH))), Err(ENAMETOOLONG));
    }

    #[test]
    fn a_rename_that_fails_leaves_its_target() {
        let mut tree = Tree::default();
        let far = format!("/{}", "n".repeat(600));
        tree.place(&format!("/s/{}", "f".repeat(500)), b"", LIMIT).unwrap();
        tree.make_folder(&far, LIMIT).unwrap();
        assert_eq!(tree.rename("/s", &far, LIMIT), Err(ENAMETOOLONG));
        assert_eq!(tree.stat(&far), Ok(Stat::Folder));
        tree.write("/a", b"kept", false, LIMIT).unwrap();
        tree.write("/longer", b"kept too", false, LIMIT).unwrap();
        assert_eq!(tree.rename("/a", "/longer", 0), Err(ENOSPC));
        assert_eq!(tree.read("/longer"), Ok(&b"kept too"[..]));
        tree.rename("/a", "/longer", LIMIT).unwrap();
        assert_eq!(tree.read("/longer"), Ok(&b"kept"[..]));
        tree.remove_all("/s").unwrap();
        tree.remove_all(&far).unwrap();
        tree.remove_file("/longer").unwrap();
        assert_eq!(tree.bytes, 0);
    }

    #[test]
    fn the_longest_path_of_a_request_has_its_place() {
        let mut tree = Tree::default();
        tree.place(&format!("/{}", "x".repeat(1024)), b"", LIMIT).unwrap();
        let deep = format!("{}/f", "/d".repeat(511));
        tree.place(&deep, b"deep", LIMIT).unwrap();
        assert_eq!(tree.read(&deep), Ok(&b"deep"[..]));
        tree.remove_all("/d").unwrap();
        assert_eq!(tree.nodes.len(), 1);
    }

    #[test]
    fn no_write_passes_the_limit_and_a_smaller_one_is_always_possible() {
        let mut tree = Tree::default();
        tree.write("/f", &[1; 1000], false, 2000).unwrap();
        assert_eq!(tree.write("/f", &[1; 1000], true, 2000), Err(ENOSPC));
        assert_eq!(tree.write("/g", &[1; 1000], false, 2000), Err(ENOSPC));
        assert_eq!(tree.read("/f").unwrap().len(), 1000);
        tree.write("/f", b"less", false, 10).unwrap();
        assert_eq!(tree.read("/f"), Ok(&b"less"[..]));
        for number in 1..MOST_FILES {
            tree.write(&format!("/{number}"), b"", false, usize::MAX).unwrap();
        }
        assert_eq!(tree.write("/more", b"", false, usize::MAX), Err(ENOSPC));
    }
}
