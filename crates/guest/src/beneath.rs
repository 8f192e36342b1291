//! Files below the working directory, reached without ever leaving it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::path::Arg;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Without `DIRECTORY`: gVisor follows a link where both that and `NOFOLLOW` are asked for.
const NO_LINK: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// The working directory, opened once.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    path: &'static str,
}

impl Root {
    pub(crate) fn open(path: &'static str) -> rustix::io::Result<Self> {
        let directory = rustix::fs::open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { directory, path })
    }

    /// Writes a file, creating its parents. A link among the parents may lead anywhere below the root, never out of it;
    /// the file itself must be new or a regular file.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> rustix::io::Result<()> {
        let (parents, name) = split(path).ok_or(Errno::INVAL)?;
        let mut at = String::new();
        let mut parent = rustix::io::fcntl_dupfd_cloexec(&self.directory, 0)?;
        for part in parents {
            if !at.is_empty() {
                at.push('/');
            }
            at.push_str(part);
            parent = match self.directory_at(&parent, &at, part) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    self.directory_at(&parent, &at, part)?
                }
                other => other?,
            };
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        rustix::fs::ftruncate(&file, 0)?;
        let mut rest = content;
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads a regular file through no link at all, up to `room` bytes; `None` when it has more.
    pub(crate) fn read(&self, path: &str, room: usize) -> rustix::io::Result<Option<Vec<u8>>> {
        let (parents, name) = split(path).ok_or(Errno::NOENT)?;
        let mut parent = rustix::io::fcntl_dupfd_cloexec(&self.directory, 0)?;
        for part in parents {
            parent = child_directory(&parent, part)?;
        }
        let file = rustix::fs::openat(&parent, name, NO_LINK, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !self.owns(&file, stat.st_dev)? {
            return Err(Errno::NOENT);
        }
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if size > room {
            return Ok(None);
        }
        let mut content = Vec::with_capacity(size);
        let mut chunk = vec![0; 64 << 10];
        loop {
            match rustix::io::read(&file, chunk.as_mut_slice()) {
                Ok(0) => return Ok(Some(content)),
                Ok(read) if read > room - content.len() => return Ok(None),
                Ok(read) => content.extend_from_slice(&chunk[..read]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A directory below the root. `path` leads to it from the root, `part` from its parent.
    fn directory_at(&self, parent: &OwnedFd, path: &str, part: &str) -> rustix::io::Result<OwnedFd> {
        let stay = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.directory, path, DIRECTORY, Mode::empty(), stay) {
            // A kernel or a filter without openat2: walk, and follow no link.
            Err(Errno::NOSYS | Errno::PERM) => child_directory(parent, part),
            other => other,
        }
    }

    /// The kernel's own name for an open file lies below the root, and it is on the root's file system.
    fn owns(&self, file: &OwnedFd, device: u64) -> rustix::io::Result<bool> {
        if rustix::fs::fstat(&self.directory)?.st_dev != device {
            return Ok(false);
        }
        match (name_of(file), name_of(&self.directory)) {
            (Ok(name), Ok(root)) => Ok(name != root && name.starts_with(&root) && root.starts_with(self.path)),
            // A kernel that does not tell names: the walk above followed no link, and another file system was refused.
            (Err(Errno::ACCESS | Errno::NOENT), _) | (_, Err(Errno::ACCESS | Errno::NOENT)) => Ok(true),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}

/// A directory in another, itself no link.
fn child_directory(parent: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let directory = rustix::fs::openat(parent, name, NO_LINK, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode) {
        FileType::Directory => Ok(directory),
        _ => Err(Errno::NOTDIR),
    }
}

fn name_of(file: &OwnedFd) -> rustix::io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let name = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(name.to_string_lossy().into_owned()))
}

/// Parents and name of a path that stays inside by its letters alone.
fn split(path: &str) -> Option<(Vec<&str>, &str)> {
    if path.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return None;
    }
    let name = parts.pop()?;
    Some((parts, name))
}

/// Replaces a file of ours in a folder that guest code may write to: whatever stands there is removed first.
pub(crate) fn replace(path: &str, content: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_by_its_letters_is_none() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a/.",
            "a\0b",
        ] {
            assert_eq!(split(path), None, "{path:?}");
        }
        assert_eq!(split("a"), Some((vec![], "a")));
        assert_eq!(split("a/b/c…"), Some((vec!["a", "b"], "c…")));
        assert_eq!(split("..a/b.."), Some((vec!["..a"], "b..")));
    }
}
