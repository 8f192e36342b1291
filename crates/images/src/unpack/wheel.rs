//! Python wheels: a zip archive whose layout says what goes where.

use std::io::{Cursor, Read as _};

use super::{MAX_UNPACKED, Stated, refused};
use crate::error::ImagesError;
use crate::tree::Tree;

/// Where commands go, without a leading slash.
const COMMANDS: &str = "usr/local/bin";

/// Puts a wheel's files into the packages folder `site`, and its commands beside those of all users.
pub(crate) fn unpack(bytes: &[u8], id: &str, site: &str, tree: &mut Tree) -> Result<Stated, ImagesError> {
    let damaged = |error: &dyn std::fmt::Display| ImagesError::package(id, format!("the archive is damaged: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    let mut stated = Stated::default();
    let mut left = MAX_UNPACKED;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| damaged(&error))?;
        if file.is_dir() {
            continue;
        }
        if file.is_symlink() {
            return Err(ImagesError::package(id, "holds a link, which no wheel may"));
        }
        let path = file.name().map_err(|error| damaged(&error))?.into_owned();
        let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut content = Vec::new();
        file.take(left)
            .read_to_end(&mut content)
            .map_err(|error| damaged(&error))?;
        left -= content.len() as u64;
        let (place, script) = match place(&path, site) {
            Some(place) => place,
            None => continue,
        };
        if path.ends_with(".dist-info/METADATA") {
            stated.licence = licence(&content);
        }
        if path.ends_with(".dist-info/entry_points.txt") {
            add_commands(&content, id, tree)?;
        }
        let content = if script { with_interpreter(content) } else { content };
        tree.add_file(&place, executable || script, content)
            .map_err(refused(id))?;
    }
    Ok(stated)
}

/// Where a file goes, and whether it is a script; `None` for what a sandbox has no use for.
fn place(path: &str, site: &str) -> Option<(String, bool)> {
    let Some((first, rest)) = path.split_once('/') else {
        return Some((format!("{site}/{path}"), false));
    };
    if !first.ends_with(".data") {
        return Some((format!("{site}/{path}"), false));
    }
    let (kind, inside) = rest.split_once('/')?;
    match kind {
        "purelib" | "platlib" => Some((format!("{site}/{inside}"), false)),
        "scripts" => Some((format!("{COMMANDS}/{inside}"), true)),
        // Manuals, most of the time.
        "data" if !inside.starts_with("share/man/") => Some((format!("usr/local/{inside}"), false)),
        _ => None,
    }
}

/// A wheel's scripts name a placeholder instead of the interpreter.
fn with_interpreter(content: Vec<u8>) -> Vec<u8> {
    let Some(rest) = content.strip_prefix(b"#!python") else {
        return content;
    };
    let line_end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    [b"#!/usr/bin/python3", &rest[line_end..]].concat()
}

/// Writes the commands that the wheel declares instead of containing.
fn add_commands(text: &[u8], id: &str, tree: &mut Tree) -> Result<(), ImagesError> {
    let mut in_section = false;
    for line in String::from_utf8_lossy(text).lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            in_section = line == "[console_scripts]";
            continue;
        }
        let Some((name, target)) = line.split_once('=').filter(|_| in_section) else {
            continue;
        };
        let target = target.split('[').next().unwrap_or_default().trim();
        let (name, Some((module, function))) = (name.trim(), target.split_once(':')) else {
            continue;
        };
        let dotted = |word: &str| {
            word.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .chars()
                        .all(|character| character.is_alphanumeric() || character == '_')
            })
        };
        if name.is_empty() || name.contains('/') || !dotted(module) || !dotted(function) {
            return Err(ImagesError::package(
                id,
                format!("declares a command that is none: {line:?}"),
            ));
        }
        let first = function.split('.').next().unwrap_or_default();
        let script =
            format!("#!/usr/bin/python3\nimport sys\n\nfrom {module} import {first}\n\nsys.exit({function}())\n");
        tree.add_file(&format!("{COMMANDS}/{name}"), true, script.into_bytes())
            .map_err(refused(id))?;
    }
    Ok(())
}

fn licence(metadata: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(metadata);
    let headers = text.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| {
        headers
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_owned())
    };
    field("License-Expression:").or_else(|| field("License:"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::tree::Node;

    fn wheel(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (path, content) in files {
            archive
                .start_file(*path, zip::write::SimpleFileOptions::default())
                .unwrap();
            archive.write_all(content.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn files_and_commands_go_where_the_layout_says() {
        let bytes = wheel(&[
            ("p/__init__.py", ""),
            ("p-1.data/scripts/s", "#!python -E\nprint()\n"),
            ("p-1.data/data/share/man/man1/p.1", ""),
            (
                "p-1.dist-info/METADATA",
                "Name: p\nLicense-Expression: MIT\n\nLicense: none",
            ),
            (
                "p-1.dist-info/entry_points.txt",
                "[console_scripts]\np = p.cli:App.main [extra]\n[other]\nq = p:q\n",
            ),
        ]);
        let mut tree = Tree::new();
        let stated = unpack(&bytes, "p==1", "site", &mut tree).unwrap();
        assert_eq!(stated.licence.as_deref(), Some("MIT"));
        assert!(tree.file("site/p/__init__.py").is_some());
        assert!(tree.get("usr/local/share").is_none());
        assert!(tree.get("usr/local/bin/q").is_none());
        let script = |name: &str| match tree.get(&format!("usr/local/bin/{name}")) {
            Some(Node::File {
                executable: true,
                content,
            }) => String::from_utf8_lossy(content).into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(script("s"), "#!/usr/bin/python3\nprint()\n");
        assert!(script("p").contains("from p.cli import App\n\nsys.exit(App.main())"));
    }

    #[test]
    fn hostile_wheels_are_refused() {
        unpack(b"no archive", "p==1", "site", &mut Tree::new()).expect_err("no archive");
        unpack(&wheel(&[("../x", "")]), "p==1", "site", &mut Tree::new()).expect_err("a path that leaves the folder");
        let scripts = wheel(&[("p-1.data/scripts/../../../etc/x", "")]);
        unpack(&scripts, "p==1", "site", &mut Tree::new()).expect_err("a script that leaves the folder");
        for line in ["../sh = p:main", "p = os;x:main", "p = p:main()"] {
            let text = format!("[console_scripts]\n{line}\n");
            let bytes = wheel(&[("p-1.dist-info/entry_points.txt", &text)]);
            unpack(&bytes, "p==1", "site", &mut Tree::new()).expect_err(line);
        }
    }
}
