//! The two files that are read: the grants file, and a preamble beside it.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Largest grants file, in bytes; some 10,000 profiles.
pub const MAX_FILE_BYTES: usize = 8 << 20;
/// Largest preamble, in bytes: it is parsed by the guest in every run.
pub const MAX_PREAMBLE_BYTES: usize = 1 << 20;

/// A file's content, and whether group or others may write it.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) writable_by_others: bool,
}

/// Reads a regular file of at most `most` bytes; a symbolic link is followed.
///
/// # Errors
/// The end of a sentence that starts with the file.
pub(super) fn read(path: &Path, most: usize) -> Result<Content, String> {
    use std::os::unix::fs::PermissionsExt as _;

    // Opening a pipe would wait for a writer, so nothing is opened before it is looked at.
    if !fs_err::metadata(path).map_err(|error| unreadable(&error))?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let file = fs_err::File::open(path).map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&error))?;
    if bytes.len() > most {
        return Err(format!("is larger than {most} bytes"));
    }
    Ok(Content {
        bytes,
        writable_by_others: metadata.permissions().mode() & 0o022 != 0,
    })
}

/// Reads a preamble named in the grants file. It must lie in the grants file's folder, before and after every symbolic
/// link is followed: whoever may write a profile shall not read other files of the daemon through it.
///
/// # Errors
/// The end of a sentence that starts with `preamble_file`.
pub(super) fn read_preamble(folder: &Path, name: &str) -> Result<String, String> {
    let escapes = "must stay in the folder of the grants file";
    let inside = lexically_inside(name).ok_or(escapes)?;
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = fs_err::canonicalize(folder).map_err(|error| unreadable(&error))?;
    let file = fs_err::canonicalize(folder.join(inside)).map_err(|error| unreadable(&error))?;
    if !file.starts_with(&folder) {
        return Err(format!("{escapes}; it is a symbolic link that leads out of it"));
    }
    let content = read(&file, MAX_PREAMBLE_BYTES)?;
    String::from_utf8(content.bytes).map_err(|_| "must hold valid UTF-8".to_owned())
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

/// The path without its leading slashes and dot segments, unless those climb out.
fn lexically_inside(name: &str) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => inside.push(part),
            Component::ParentDir if !inside.pop() => return None,
            Component::ParentDir | Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(inside)
}
