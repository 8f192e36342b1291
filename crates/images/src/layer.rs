//! A layer as an archive: the same files give the same bytes, on every host.

use std::io::{Read, Write};

use tar::{EntryType, Header};

use crate::digest::{Hash, Hashing};
use crate::tree::{Node, Tree};

/// Writes the layer's archive: entries sorted by path, one time for all, owner and group 0 by number.
///
/// Returns the hash and the length in bytes of what was written.
///
/// # Errors
///
/// Those of the writer.
pub(crate) fn write(tree: &Tree, time: u64, out: impl Write) -> std::io::Result<(Hash, u64)> {
    let mut archive = tar::Builder::new(Hashing::new(out));
    for (path, node) in tree.iter() {
        let mut header = Header::new_gnu();
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match node {
            Node::Directory { mode } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                archive.append_data(&mut header, format!("{path}/"), std::io::empty())?;
            }
            Node::File { executable, content } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(if *executable { 0o755 } else { 0o644 });
                header.set_size(content.len() as u64);
                archive.append_data(&mut header, path, &content[..])?;
            }
            Node::Link { target } => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                archive.append_link(&mut header, path, target)?;
            }
        }
    }
    let (mut out, hash, length) = archive.into_inner()?.finish();
    out.flush()?;
    Ok((hash, length))
}

/// Reads back the entries of a layer that [`write`] wrote, where `wanted` says so.
///
/// # Errors
///
/// When the archive is damaged.
pub(crate) fn read(archive: impl Read, wanted: impl Fn(&str) -> bool) -> std::io::Result<Tree> {
    let mut tree = Tree::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = String::from_utf8(entry.path_bytes().into_owned()).map_err(std::io::Error::other)?;
        let path = path.trim_end_matches('/');
        if !wanted(path) {
            continue;
        }
        let added = match entry.header().entry_type() {
            EntryType::Directory => tree.set_directory(path, entry.header().mode()?),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default();
                tree.add_link(path, &String::from_utf8_lossy(&target))
            }
            _ => {
                let executable = entry.header().mode()? & 0o111 != 0;
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                tree.add_file(path, executable, content)
            }
        };
        added.map_err(std::io::Error::other)?;
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(reverse: bool) -> Tree {
        let mut tree = Tree::new();
        let long = format!("usr/{}/f", "deep".repeat(50));
        let mut files = vec![("usr/b", true), ("usr/a/x", false), (long.as_str(), false)];
        if reverse {
            files.reverse();
        }
        for (path, executable) in files {
            tree.add_file(path, executable, path.as_bytes()).unwrap();
        }
        tree.add_link("usr/l", "b").unwrap();
        tree.set_directory("work", 0o1777).unwrap();
        tree
    }

    #[test]
    fn the_same_files_give_the_same_bytes_in_whatever_order_they_came() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let first = write(&sample(false), 1_000, &mut one).unwrap();
        let second = write(&sample(true), 1_000, &mut two).unwrap();
        assert_eq!(first, second);
        assert_eq!(one, two);
        assert_eq!(first.0, Hash::of(&one));
        assert_eq!(first.1, one.len() as u64);
        assert_ne!(write(&sample(false), 1_001, Vec::new()).unwrap().0, first.0);
    }

    #[test]
    fn owners_modes_and_times_are_those_of_the_contract() {
        let mut bytes = Vec::new();
        write(&sample(false), 1_000, &mut bytes).unwrap();
        let mut modes = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 1_000);
            assert_eq!(header.username().unwrap(), Some(""));
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            if path.len() < 20 {
                modes.push((path, header.mode().unwrap()));
            }
        }
        let expected = [
            ("usr/", 0o755),
            ("usr/a/", 0o755),
            ("usr/a/x", 0o644),
            ("usr/b", 0o755),
            ("usr/l", 0o777),
            ("work/", 0o1777),
        ];
        assert_eq!(modes, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn a_layer_reads_back_as_it_was() {
        let tree = sample(false);
        let mut bytes = Vec::new();
        write(&tree, 1_000, &mut bytes).unwrap();
        let back = read(&bytes[..], |_| true).unwrap();
        assert!(back.iter().eq(tree.iter()));
        let part = read(&bytes[..], |path| path == "usr/b").unwrap();
        assert_eq!(part.file("usr/b").map(|content| &content[..]), Some(&b"usr/b"[..]));
        assert!(part.file("usr/a/x").is_none());
    }
}
