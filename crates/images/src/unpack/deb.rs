//! Debian packages: an `ar` archive with a control archive and a data archive in it.

use std::io::Read;

use flate2::read::GzDecoder;
use lzma_rust2::XzReader;
use tar::EntryType;

use super::{Stated, bounded, damaged, refused};
use crate::error::ImagesError;
use crate::tree::Tree;

/// Puts a package's files into the tree, and its control file where scanners look for it.
///
/// Of the documentation only the copyright files go in; the recipe drops the rest by name.
pub(crate) fn unpack(bytes: &[u8], id: &str, name: &str, tree: &mut Tree) -> Result<Stated, ImagesError> {
    let mut archive = ar::Archive::new(bytes);
    let (mut control, mut data) = (false, false);
    while let Some(member) = archive.next_entry() {
        let member = member.map_err(damaged(id))?;
        let member_name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        if member_name.starts_with("control.tar") {
            let text = control_file(decompressed(&member_name, member, id)?, id)?;
            tree.add_file(&format!("var/lib/dpkg/status.d/{name}"), false, text)
                .map_err(refused(id))?;
            control = true;
        } else if member_name.starts_with("data.tar") {
            add_data(decompressed(&member_name, member, id)?, id, tree)?;
            data = true;
        }
    }
    if control && data {
        Ok(Stated::default())
    } else {
        Err(ImagesError::package(
            id,
            "is no Debian package: its control or data archive is missing",
        ))
    }
}

fn decompressed<'a>(name: &str, reader: impl Read + 'a, id: &str) -> Result<Box<dyn Read + 'a>, ImagesError> {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("xz") => Ok(Box::new(bounded(XzReader::new(reader, true)))),
        Some("gz") => Ok(Box::new(bounded(GzDecoder::new(reader)))),
        Some("tar") => Ok(Box::new(bounded(reader))),
        _ => Err(ImagesError::package(
            id,
            format!("{name} is compressed in a way this program does not read"),
        )),
    }
}

fn control_file(reader: impl Read, id: &str) -> Result<Vec<u8>, ImagesError> {
    for entry in tar::Archive::new(reader).entries().map_err(damaged(id))? {
        let mut entry = entry.map_err(damaged(id))?;
        if matches!(&*entry.path_bytes(), b"./control" | b"control") {
            let mut text = Vec::new();
            entry.read_to_end(&mut text).map_err(damaged(id))?;
            return Ok(text);
        }
    }
    Err(ImagesError::package(id, "has no control file"))
}

fn add_data(reader: impl Read, id: &str, tree: &mut Tree) -> Result<(), ImagesError> {
    for entry in tar::Archive::new(reader).entries().map_err(damaged(id))? {
        let mut entry = entry.map_err(damaged(id))?;
        let path = text(&entry.path_bytes(), id)?;
        let kind = entry.header().entry_type();
        if is_documentation(&path) && kind != EntryType::Directory {
            continue;
        }
        match kind {
            EntryType::Directory => tree.add_directory(&path),
            EntryType::Regular => {
                let executable = entry.header().mode().map_err(damaged(id))? & 0o111 != 0;
                let mut content = Vec::new();
                entry.read_to_end(&mut content).map_err(damaged(id))?;
                tree.add_file(&path, executable, content)
            }
            EntryType::Symlink => {
                let target = text(&entry.link_name_bytes().unwrap_or_default(), id)?;
                tree.add_link(&path, &target)
            }
            // A second name for a file of the same package; as a file of its own it reads the same.
            EntryType::Link => {
                let first = text(&entry.link_name_bytes().unwrap_or_default(), id)?;
                let node = tree.meant_by(&first).cloned();
                match node {
                    Some(crate::tree::Node::File { executable, content }) => tree.add_file(&path, executable, content),
                    _ => {
                        return Err(ImagesError::package(
                            id,
                            format!("{path:?} is a second name for no file"),
                        ));
                    }
                }
            }
            _ => {
                return Err(ImagesError::package(
                    id,
                    format!("{path:?} is neither a file, a directory nor a link"),
                ));
            }
        }
        .map_err(refused(id))?;
    }
    Ok(())
}

fn is_documentation(path: &str) -> bool {
    path.trim_start_matches("./").starts_with("usr/share/doc/") && !path.ends_with("/copyright")
}

fn text(bytes: &[u8], id: &str) -> Result<String, ImagesError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ImagesError::package(id, "names a file that is not UTF-8"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    /// An entry whose name is written as it stands: the archive writer would refuse the ones we need.
    fn entry(archive: &mut tar::Builder<Vec<u8>>, path: &str, kind: EntryType, content: &[u8], link: &str) {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, content).unwrap();
    }

    /// A package of these files: path, kind, content, link target.
    pub(crate) fn package(files: &[(&str, EntryType, &[u8], &str)]) -> Vec<u8> {
        let mut control = tar::Builder::new(Vec::new());
        entry(&mut control, "./control", EntryType::Regular, b"Package: p\n", "");
        let mut data = tar::Builder::new(Vec::new());
        for (path, kind, content, link) in files {
            entry(&mut data, path, *kind, content, link);
        }
        let mut archive = ar::Builder::new(Vec::new());
        for (name, content) in [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", gzipped(&control.into_inner().unwrap())),
            ("data.tar.gz", gzipped(&data.into_inner().unwrap())),
        ] {
            let header = ar::Header::new(name.into(), content.len() as u64);
            archive.append(&header, &content[..]).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn files_links_and_second_names_come_in_without_their_special_bits() {
        let bytes = package(&[
            ("./bin/", EntryType::Directory, b"", ""),
            ("./bin/a", EntryType::Regular, b"program", ""),
            ("./bin/b", EntryType::Link, b"", "./bin/a"),
            ("./bin/c", EntryType::Symlink, b"", "a"),
            ("./usr/share/doc/p/changelog.gz", EntryType::Regular, b"x", ""),
            ("./usr/share/doc/p/copyright", EntryType::Regular, b"x", ""),
        ]);
        let mut tree = Tree::new();
        unpack(&bytes, "p 1", "p", &mut tree).unwrap();
        let node = crate::tree::Node::File {
            executable: true,
            content: (*b"program").into(),
        };
        assert_eq!(tree.get("usr/bin/a"), Some(&node));
        assert_eq!(tree.get("usr/bin/b"), Some(&node));
        assert!(tree.file("usr/share/doc/p/copyright").is_some());
        assert!(tree.file("usr/share/doc/p/changelog.gz").is_none());
        assert_eq!(
            tree.file("var/lib/dpkg/status.d/p").map(|text| &text[..]),
            Some(&b"Package: p\n"[..])
        );
    }

    #[test]
    fn hostile_packages_are_refused() {
        for (path, kind, link) in [
            ("../../etc/passwd", EntryType::Regular, ""),
            ("./usr/../../x", EntryType::Regular, ""),
            ("./dev/sda", EntryType::Block, ""),
            ("./pipe", EntryType::Fifo, ""),
            ("./second", EntryType::Link, "/etc/shadow"),
            ("./link", EntryType::Symlink, ""),
        ] {
            let bytes = package(&[(path, kind, b"", link)]);
            let error = unpack(&bytes, "p 1", "p", &mut Tree::new())
                .expect_err(path)
                .to_string();
            assert!(error.starts_with("package p 1: "), "{error}");
        }
        let through = [
            ("./d", EntryType::Symlink, &b""[..], "/etc"),
            ("./d/passwd", EntryType::Regular, &b"x"[..], ""),
        ];
        unpack(&package(&through), "p 1", "p", &mut Tree::new()).expect_err("a file through a link");
        unpack(b"!<arch>\n", "p 1", "p", &mut Tree::new()).expect_err("an empty archive");
        unpack(b"no archive", "p 1", "p", &mut Tree::new()).expect_err("no archive");
    }
}
