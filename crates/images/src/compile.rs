//! Python files compiled ahead: a sandbox's root is read-only, so Python could never keep what it compiles there.
//!
//! The interpreter that compiles is the image's own, started by the image's own loader from a scratch folder. It compiles
//! in one process, in order and with fixed hashing, and marks the result as never to be checked against the source: so
//! the bytes depend on the source and the interpreter alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fs_err as fs;

use crate::error::ImagesError;
use crate::fetch::{output, said};
use crate::store::Store;
use crate::tree::{Node, Tree};

/// Where the loader is, without a leading slash.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
/// Where libraries are.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// What of the layers below the interpreter needs.
pub(crate) fn is_needed(path: &str, version: &str) -> bool {
    [
        LIBRARIES,
        "usr/lib64",
        &format!("usr/lib/python{version}"),
        &format!("usr/bin/python{version}"),
    ]
    .iter()
    .any(|start| path.starts_with(start))
}

/// Compiles the Python files below `folders` of `tree` and puts the results beside them.
pub(crate) fn compile(
    store: &Store,
    below: &Tree,
    tree: &mut Tree,
    folders: &[String],
    version: &str,
) -> Result<(), ImagesError> {
    let scratch = store.scratch()?;
    let root = scratch.path();
    write_out(below, root, |path| is_needed(path, version))?;
    write_out(tree, root, |path| {
        is_needed(path, version)
            || (path.ends_with(".py") && folders.iter().any(|folder| path.starts_with(folder.as_str())))
    })?;
    let at = |path: &str| root.join(path).display().to_string();
    let mut args = vec![
        "--library-path".to_owned(),
        at(LIBRARIES),
        at(&format!("usr/bin/python{version}")),
        // No site packages and no variables of the user, no compiling of what the compiler itself imports.
        "-I".to_owned(),
        "-S".to_owned(),
        "-B".to_owned(),
        "-c".to_owned(),
        PROGRAM.to_owned(),
        root.display().to_string(),
    ];
    args.extend(folders.iter().cloned());
    let Some(run) = output(root.join(LOADER), root, &args)? else {
        return Err(failed("the image has no loader".to_owned()));
    };
    if !run.status.success() {
        return Err(failed(said(&run)));
    }
    for folder in folders {
        read_back(&root.join(folder), folder, tree)?;
    }
    Ok(())
}

/// Its own list of files instead of a walk of the folders: their order decides nothing then.
const PROGRAM: &str = r#"
import os, py_compile, sys
root = sys.argv[1]
for folder in sys.argv[2:]:
    for path, folders, files in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(files):
            if not name.endswith(".py"):
                continue
            full = os.path.join(path, name)
            try:
                py_compile.compile(
                    full, dfile="/" + os.path.relpath(full, root), doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            except py_compile.PyCompileError:
                pass  # test data and templates need not be valid programs
"#;

fn write_out(tree: &Tree, root: &Path, wanted: impl Fn(&str) -> bool) -> Result<(), ImagesError> {
    for (path, node) in tree.iter().filter(|(path, _)| wanted(path)) {
        let full = root.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent)?;
        }
        match node {
            Node::Directory { .. } => fs::create_dir_all(&full)?,
            Node::File { executable, content } => write_file(&full, *executable, content)?,
            // An absolute target means the image's root; followed on the host it would be the host's.
            Node::Link { target } => {
                if let Some(Node::File { executable, content }) = tree.get(&resolved(path, target)) {
                    write_file(&full, *executable, content)?;
                }
            }
        }
    }
    Ok(())
}

fn write_file(path: &Path, executable: bool, content: &[u8]) -> std::io::Result<()> {
    fs::write(path, content)?;
    if executable {
        fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Where a link at `path` leads inside the image.
fn resolved(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => path.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if matches!(parts.first(), Some(&("lib" | "lib64"))) {
        parts.insert(0, "usr");
    }
    parts.join("/")
}

fn read_back(folder: &Path, path: &str, tree: &mut Tree) -> Result<(), ImagesError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let inside = format!("{path}/{name}");
        if entry.file_type()?.is_dir() {
            read_back(&entry.path(), &inside, tree)?;
        } else if name.ends_with(".pyc") {
            tree.add_file(&inside, false, fs::read(entry.path())?)
                .map_err(|bad| ImagesError::package("Python", bad))?;
        }
    }
    Ok(())
}

fn failed(said: String) -> ImagesError {
    ImagesError::Client {
        client: "the image's Python",
        doing: "compile its files (this needs a host with Linux on 64-bit x86)".to_owned(),
        said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_inside_the_image() {
        for (path, target, expected) in [
            (
                "usr/lib64/ld.so",
                "/lib/x86_64-linux-gnu/ld.so",
                "usr/lib/x86_64-linux-gnu/ld.so",
            ),
            (
                "usr/lib64/ld.so",
                "../lib/x86_64-linux-gnu/ld.so",
                "usr/lib/x86_64-linux-gnu/ld.so",
            ),
            ("usr/lib/a/libz.so.1", "libz.so.1.2", "usr/lib/a/libz.so.1.2"),
            ("usr/lib/a", "../../../../../etc/passwd", "etc/passwd"),
        ] {
            assert_eq!(resolved(path, target), expected);
        }
    }
}
