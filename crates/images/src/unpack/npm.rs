//! npm packages: a gzipped tar archive with one folder at its top.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;
use tar::EntryType;

use super::{Stated, bounded, damaged, refused};
use crate::error::ImagesError;
use crate::tree::Tree;

/// Puts a package's files below `place`. Links are left out, as npm does.
pub(crate) fn unpack(bytes: &[u8], id: &str, place: &str, tree: &mut Tree) -> Result<Stated, ImagesError> {
    let reader = bounded(GzDecoder::new(bytes));
    for entry in tar::Archive::new(reader).entries().map_err(damaged(id))? {
        let mut entry = entry.map_err(damaged(id))?;
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| ImagesError::package(id, "names a file that is not UTF-8"))?;
        // The top folder is `package` nearly always, and nothing depends on its name.
        let Some((_, inside)) = path.trim_start_matches("./").split_once('/') else {
            continue;
        };
        let executable = entry.header().mode().map_err(damaged(id))? & 0o111 != 0;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(damaged(id))?;
        tree.add_file(&format!("{place}/{inside}"), executable, content)
            .map_err(refused(id))?;
    }
    let manifest = manifest(tree, id, place)?;
    let licence = match &manifest["license"] {
        Value::String(text) => Some(text.clone()),
        // The form before 2015.
        Value::Object(fields) => fields.get("type").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    Ok(Stated { licence })
}

/// Links the commands of the package at `place` into `folder`, with targets relative to it.
pub(crate) fn link_commands(tree: &mut Tree, id: &str, place: &str, folder: &str) -> Result<(), ImagesError> {
    let manifest = manifest(tree, id, place)?;
    let commands: Vec<(String, String)> = match &manifest["bin"] {
        Value::String(file) => {
            let name = manifest["name"].as_str().unwrap_or_default();
            let command = name.rsplit('/').next().unwrap_or_default();
            vec![(command.to_owned(), file.clone())]
        }
        Value::Object(commands) => commands
            .iter()
            .filter_map(|(command, file)| Some((command.clone(), file.as_str()?.to_owned())))
            .collect(),
        _ => Vec::new(),
    };
    for (command, file) in commands {
        if command.is_empty() || command.contains('/') {
            return Err(ImagesError::package(
                id,
                format!("has a command with the name {command:?}"),
            ));
        }
        let target = format!("{place}/{}", file.trim_start_matches("./"));
        if !tree.make_executable(&target) {
            return Err(ImagesError::package(
                id,
                format!("has a command {command:?} without its file {file:?}"),
            ));
        }
        tree.add_link(&format!("{folder}/{command}"), &relative(folder, &target))
            .map_err(refused(id))?;
    }
    Ok(())
}

fn manifest(tree: &Tree, id: &str, place: &str) -> Result<Value, ImagesError> {
    let text = tree
        .file(&format!("{place}/package.json"))
        .ok_or_else(|| ImagesError::package(id, "has no package.json"))?;
    // Some are written with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    serde_json::from_slice(text).map_err(|error| ImagesError::package(id, format!("package.json: {error}")))
}

/// The way from one folder to a file, both without leading slash.
fn relative(folder: &str, file: &str) -> String {
    let (mut from, mut to) = (folder.split('/').peekable(), file.split('/').peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let up = from.map(|_| "..");
    up.chain(to).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::tree::Node;

    fn package(files: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_mode(0o600);
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&archive.into_inner().unwrap()).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn commands_are_linked_and_executable() {
        let bytes = package(&[
            (
                "package/package.json",
                r#"{"name":"@s/p","license":"MIT","bin":"./cli.js"}"#,
            ),
            ("package/cli.js", "#!/usr/bin/env node\n"),
        ]);
        let mut tree = Tree::new();
        let place = "usr/local/lib/node_modules/@s/p";
        let stated = unpack(&bytes, "@s/p@1", place, &mut tree).unwrap();
        assert_eq!(stated.licence.as_deref(), Some("MIT"));
        link_commands(&mut tree, "@s/p@1", place, "usr/local/bin").unwrap();
        let target = "../lib/node_modules/@s/p/cli.js".to_owned();
        assert_eq!(tree.get("usr/local/bin/p"), Some(&Node::Link { target }));
        assert!(matches!(
            tree.get(&format!("{place}/cli.js")),
            Some(Node::File { executable: true, .. })
        ));
    }

    #[test]
    fn hostile_packages_are_refused() {
        let out = package(&[("package/package.json", "{}"), ("package/../../../etc/passwd", "x")]);
        unpack(&out, "p@1", "node_modules/p", &mut Tree::new()).expect_err("a path that leaves the package");
        unpack(b"no archive", "p@1", "node_modules/p", &mut Tree::new()).expect_err("no archive");
        for manifest in [
            r#"{"bin":{"../sh":"x.js"}}"#,
            r#"{"bin":{"a":"../../x.js"}}"#,
            r#"{"bin":{"":"x.js"}}"#,
        ] {
            let bytes = package(&[("package/package.json", manifest), ("package/x.js", "")]);
            let mut tree = Tree::new();
            unpack(&bytes, "p@1", "node_modules/p", &mut tree).unwrap();
            link_commands(&mut tree, "p@1", "node_modules/p", "bin").expect_err(manifest);
        }
    }
}
