//! The files of a project or a session: a tree in memory, held by the host, so that every step or call sees the same one and it
//! outlives the instances. Guests reach it through one import; they have no other file system.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// A refusal, as the number POSIX gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno {
    number: i64,
    /// It stands for the limit of entries, which shares its number with the limit of bytes.
    entries: bool,
}

pub(crate) const ENOENT: Errno = Errno::of(2);
const EBUSY: Errno = Errno::of(16);
pub(crate) const EEXIST: Errno = Errno::of(17);
pub(crate) const ENOTDIR: Errno = Errno::of(20);
const EISDIR: Errno = Errno::of(21);
pub(crate) const EINVAL: Errno = Errno::of(22);
/// No bytes are left.
pub(crate) const ENOSPC: Errno = Errno::of(28);
/// No entries are left: to a guest the same.
pub(crate) const TOO_MANY: Errno = Errno {
    number: 28,
    entries: true,
};
const ENAMETOOLONG: Errno = Errno::of(36);
/// There is no tree.
pub(crate) const ENOSYS: Errno = Errno::of(38);
const ENOTEMPTY: Errno = Errno::of(39);

impl Errno {
    const fn of(number: i64) -> Self {
        Self { number, entries: false }
    }

    /// As the import answers it: negative.
    pub(crate) fn answer(self) -> i64 {
        -self.number
    }

    /// Its name, and what it means where that is one of our limits, for a refusal.
    pub(crate) fn told(self) -> &'static str {
        match self {
            ENOENT => "ENOENT",
            EBUSY => "EBUSY",
            EEXIST => "EEXIST",
            ENOTDIR => "ENOTDIR, a folder of its path is a file",
            EISDIR => "EISDIR, there is a folder of that name",
            ENOSPC => "ENOSPC, the memory limit leaves no room for it",
            TOO_MANY => "ENOSPC, there are 10000 files and folders already",
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
            Node::Folder(_) => Err(EISDIR),
        }
    }

    /// Whether a file can be made or replaced with these many bytes, or get them at its end. The whole tree may hold `limit`
    /// bytes.
    pub(crate) fn room(&self, path: &str, length: usize, append: bool, limit: usize) -> Result<(), Errno> {
        let bytes = match self.stat(path) {
            Ok(Stat::Folder) => return Err(EISDIR),
            Ok(Stat::File(size)) => self.bytes - if append { 0 } else { size } + length,
            Err(ENOENT) => {
                let (parent, name) = split(checked(path)?)?;
                match self.find(parent)? {
                    Node::Folder(_) => self.room_for_entry()?,
                    Node::File(_) => return Err(ENOTDIR),
                }
                self.bytes + length + cost(name)
            }
            Err(error) => return Err(error),
        };
        if bytes > limit && bytes > self.bytes {
            return Err(ENOSPC);
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

    /// Adds to the end of a file, which is made if it is not there. One whose content is shared is copied first.
    pub(crate) fn append(&mut self, path: &str, more: &[u8], limit: usize) -> Result<(), Errno> {
        self.room(path, more.len(), true, limit)?;
        let (children, name) = self.parent(path)?;
        if let Some(Node::File(content)) = children.get_mut(name) {
            Arc::make_mut(content).extend_from_slice(more);
            self.bytes += more.len();
            return Ok(());
        }
        self.write(path, Arc::new(more.to_vec()), limit).map(Gone::away)
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
            Ok(_) => return Err(EEXIST),
            Err(ENOENT) => {}
            Err(error) => return Err(error),
        }
        let (parent, name) = split(path)?;
        match self.find(parent)? {
            Node::Folder(_) => self.room_for_entry()?,
            Node::File(_) => return Err(ENOTDIR),
        }
        let bytes = self.bytes + cost(name);
        if bytes > limit {
            return Err(ENOSPC);
        }
        let (children, name) = self.parent(path)?;
        children.insert(name.to_owned(), Node::Folder(Children::new()));
        self.bytes = bytes;
        self.entries += 1;
        Ok(())
    }

    /// Writes a file of a request and makes the folders above it.
    pub(crate) fn place(&mut self, path: &str, content: &[u8], limit: usize) -> Result<(), Errno> {
        // Where the folder is there already, looking at each above it would cost the square of the depth.
        if !matches!(self.stat(split(checked(path)?)?.0), Ok(Stat::Folder)) {
            for (at, _) in path.match_indices('/').skip(1) {
                match self.make_folder(&path[..at], limit) {
                    Ok(()) | Err(EEXIST) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.write(path, Arc::new(content.to_vec()), limit).map(Gone::away)
    }

    /// The names in a folder, in order, each after an `f` or a `d`, separated by NUL.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let Node::Folder(children) = self.find(path)? else {
            return Err(ENOTDIR);
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
            return Err(EBUSY);
        }
        if from == to {
            return Ok(Gone::NOTHING);
        }
        if to.strip_prefix(from).is_some_and(|below| below.starts_with('/')) {
            return Err(EINVAL);
        }
        let (parent, name) = split(checked(to)?)?;
        match (moved, self.find(to)) {
            (Node::Folder(_), Ok(Node::File(_))) => return Err(ENOTDIR),
            (Node::File(_), Ok(Node::Folder(_))) => return Err(EISDIR),
            (Node::Folder(_), Ok(Node::Folder(below))) if !below.is_empty() => return Err(ENOTEMPTY),
            (_, Ok(_)) => {}
            (_, Err(ENOENT)) if matches!(self.find(parent)?, Node::File(_)) => return Err(ENOTDIR),
            (_, Err(ENOENT)) => {}
            (_, Err(error)) => return Err(error),
        }
        if to.len() + deepest(moved) > LONGEST_PATH {
            return Err(ENAMETOOLONG);
        }
        let grown = name.len().saturating_sub(split(from)?.1.len());
        if grown > 0 && self.bytes + grown > limit {
            return Err(ENOSPC);
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
            Stat::Folder => Err(EISDIR),
        }
    }

    pub(crate) fn remove_folder(&mut self, path: &str) -> Result<Gone, Errno> {
        match self.find(path)? {
            Node::File(_) => Err(ENOTDIR),
            Node::Folder(_) if is_fixed(path) => Err(EBUSY),
            Node::Folder(children) if !children.is_empty() => Err(ENOTEMPTY),
            Node::Folder(_) => self.take(path),
        }
    }

    /// Removes an entry and everything below it.
    pub(crate) fn remove_all(&mut self, path: &str) -> Result<Gone, Errno> {
        self.find(path)?;
        if is_fixed(path) {
            return Err(EBUSY);
        }
        self.take(path)
    }

    /// Takes an entry out, with what is below it.
    fn take(&mut self, path: &str) -> Result<Gone, Errno> {
        let (children, name) = self.parent(path)?;
        let node = children.remove(name).ok_or(ENOENT)?;
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
                Node::Folder(children) => children.get(segment).ok_or(ENOENT)?,
                Node::File(_) => return Err(ENOTDIR),
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
                Node::Folder(children) => children.get_mut(segment).ok_or(ENOENT)?,
                Node::File(_) => return Err(ENOTDIR),
            };
        }
        match node {
            Node::Folder(children) => Ok((children, name)),
            Node::File(_) => Err(ENOTDIR),
        }
    }

    fn room_for_entry(&self) -> Result<(), Errno> {
        if self.entries >= MOST_FILES {
            return Err(TOO_MANY);
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
        Some(("", "")) | None => Err(EINVAL),
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

    fn write(tree: &mut Tree, path: &str, content: &[u8], limit: usize) -> Result<(), Errno> {
        tree.write(path, Arc::new(content.to_vec()), limit).map(Gone::away)
    }

    fn rename(tree: &mut Tree, from: &str, to: &str, limit: usize) -> Result<(), Errno> {
        tree.rename(from, to, limit).map(Gone::away)
    }

    fn remove_all(tree: &mut Tree, path: &str) -> Result<(), Errno> {
        tree.remove_all(path).map(Gone::away)
    }

    fn read(tree: &Tree, path: &str) -> Vec<u8> {
        tree.read(path).unwrap().to_vec()
    }

    #[test]
    fn what_is_written_is_read_listed_moved_and_removed() {
        let mut tree = Tree::default();
        tree.place("/work/b/c.txt", b"one", LIMIT).unwrap();
        tree.append("/work/b/c.txt", b" two", LIMIT).unwrap();
        assert_eq!(read(&tree, "/work/b/c.txt"), b"one two");
        tree.make_folder("/work/d", LIMIT).unwrap();
        write(&mut tree, "/work/a.txt", b"", LIMIT).unwrap();
        assert_eq!(tree.list("/").unwrap(), b"dtmp\0dwork");
        assert_eq!(tree.list("/work").unwrap(), b"fa.txt\0db\0dd");
        rename(&mut tree, "/work/b", "/work/d/e", LIMIT).unwrap();
        assert_eq!(read(&tree, "/work/d/e/c.txt"), b"one two");
        assert_eq!(tree.stat("/work/b"), Err(ENOENT));
        remove_all(&mut tree, "/work/d").unwrap();
        tree.remove_file("/work/a.txt").unwrap().away();
        assert_eq!((tree.entries, tree.bytes), (0, 0));
    }

    #[test]
    fn refusals_are_those_of_posix() {
        let mut tree = Tree::default();
        tree.place("/a/f", b"", LIMIT).unwrap();
        assert_eq!(tree.read("/a"), Err(EISDIR));
        assert_eq!(tree.read("/b"), Err(ENOENT));
        assert_eq!(tree.stat("/a/f/g"), Err(ENOTDIR));
        assert_eq!(write(&mut tree, "/b/f", b"", LIMIT), Err(ENOENT));
        assert_eq!(write(&mut tree, "/a", b"", LIMIT), Err(EISDIR));
        assert_eq!(write(&mut tree, "/a/f/g", b"", LIMIT), Err(ENOTDIR));
        assert_eq!(tree.place("/a/f/g", b"", LIMIT), Err(ENOTDIR));
        assert_eq!(tree.place("/a/f/g/h", b"", LIMIT), Err(ENOTDIR));
        assert_eq!(tree.make_folder("/a", LIMIT), Err(EEXIST));
        assert_eq!(tree.make_folder("/a/f/g", LIMIT), Err(ENOTDIR));
        assert_eq!(tree.remove_folder("/a").map(Gone::away), Err(ENOTEMPTY));
        assert_eq!(tree.remove_folder("/a/f").map(Gone::away), Err(ENOTDIR));
        assert_eq!(rename(&mut tree, "/a", "/a/b", LIMIT), Err(EINVAL));
        assert_eq!(rename(&mut tree, "/a", "/a/f", LIMIT), Err(EINVAL));
        assert_eq!(rename(&mut tree, "/a/f", "/b/f", LIMIT), Err(ENOENT));
        for path in FIXED {
            assert_eq!(remove_all(&mut tree, path), Err(EBUSY), "{path}");
            assert_eq!(tree.remove_folder(path).map(Gone::away), Err(EBUSY), "{path}");
            assert_eq!(rename(&mut tree, path, "/elsewhere", LIMIT), Err(EBUSY), "{path}");
            assert_eq!(rename(&mut tree, "/a", path, LIMIT), Err(EBUSY), "{path}");
            assert_eq!(tree.stat(path), Ok(Stat::Folder), "{path}");
        }
        for path in ["a", "/a/../b", "/a//b", "/a/", "/a\0", "//", ""] {
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
        assert_eq!(rename(&mut tree, "/s", &far, LIMIT), Err(ENAMETOOLONG));
        assert_eq!(tree.stat(&far), Ok(Stat::Folder));
        write(&mut tree, "/a", b"kept", LIMIT).unwrap();
        write(&mut tree, "/longer", b"kept too", LIMIT).unwrap();
        assert_eq!(rename(&mut tree, "/a", "/longer", 0), Err(ENOSPC));
        assert_eq!(read(&tree, "/longer"), b"kept too");
        rename(&mut tree, "/a", "/longer", LIMIT).unwrap();
        assert_eq!(read(&tree, "/longer"), b"kept");
        remove_all(&mut tree, "/s").unwrap();
        remove_all(&mut tree, &far).unwrap();
        tree.remove_file("/longer").unwrap().away();
        assert_eq!((tree.entries, tree.bytes), (0, 0));
    }

    #[test]
    fn a_copy_counts_in_full_and_goes_its_own_way() {
        let mut tree = Tree::default();
        write(&mut tree, "/a", &[1; 600], LIMIT).unwrap();
        assert_eq!(tree.copy("/a", "/b", 1200).map(Gone::away), Err(ENOSPC));
        tree.copy("/a", "/b", LIMIT).unwrap().away();
        assert_eq!(tree.bytes, 2 * (600 + cost("a")));
        tree.append("/b", &[2], LIMIT).unwrap();
        assert_eq!(
            (tree.read("/a").unwrap().len(), tree.read("/b").unwrap().len()),
            (600, 601)
        );
        tree.copy("/a", "/a", LIMIT).unwrap().away();
        assert_eq!(tree.bytes, 2 * (600 + cost("a")) + 1);
    }

    #[test]
    fn the_longest_path_of_a_request_has_its_place_and_the_deepest_goes_without_recursion() {
        let mut tree = Tree::default();
        tree.place(&format!("{WORK}/{}", "x".repeat(1024)), b"", LIMIT).unwrap();
        let deep = format!("{WORK}{}/f", "/d".repeat(511));
        tree.place(&deep, b"deep", LIMIT).unwrap();
        assert_eq!(read(&tree, &deep), b"deep");
        let small_stack = std::thread::Builder::new().stack_size(32 << 10);
        let removed = small_stack.spawn(move || {
            remove_all(&mut tree, "/work/d").unwrap();
            tree
        });
        let tree = removed.unwrap().join().unwrap();
        assert_eq!(tree.entries, 1);
    }

    #[test]
    fn no_write_passes_the_limit_and_a_smaller_one_is_always_possible() {
        let mut tree = Tree::default();
        write(&mut tree, "/f", &[1; 1000], 2000).unwrap();
        assert_eq!(tree.append("/f", &[1; 1000], 2000), Err(ENOSPC));
        assert_eq!(write(&mut tree, "/g", &[1; 1000], 2000), Err(ENOSPC));
        assert_eq!(tree.read("/f").unwrap().len(), 1000);
        write(&mut tree, "/f", b"less", 10).unwrap();
        assert_eq!(read(&tree, "/f"), b"less");
        for number in 1..MOST_FILES {
            write(&mut tree, &format!("/{number}"), b"", usize::MAX).unwrap();
        }
        assert_eq!(write(&mut tree, "/more", b"", usize::MAX), Err(TOO_MANY));
        assert_eq!(tree.make_folder("/more", usize::MAX), Err(TOO_MANY));
        assert_eq!((TOO_MANY.answer(), ENOSPC.answer()), (-28, -28));
        rename(&mut tree, "/1", "/one", usize::MAX).unwrap();
    }
}
