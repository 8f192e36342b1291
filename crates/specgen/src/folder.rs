//! A folder of artifacts: written, or compared with what would be written.

use std::io::{self, Write as _};
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;

use crate::emit::File;

/// Writes the files, removes those that must not be there, and says what it did, a line for each change.
///
/// # Errors
/// The first file that could not be written or removed; the error names its path.
pub(crate) fn write(folder: &Path, files: &[File]) -> io::Result<Vec<String>> {
    create(folder)?;
    let mut lines = Vec::new();
    for file in files {
        let path = folder.join(file.name);
        match &file.content {
            Some(content) => {
                let mut written = fs_err::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o644)
                    .open(&path)?;
                written.write_all(content.as_bytes())?;
                lines.push(format!("wrote {}", path.display()));
            }
            None => match fs_err::remove_file(&path) {
                Ok(()) => lines.push(format!(
                    "removed {}, which the document no longer yields",
                    path.display()
                )),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(lines)
}

/// Names every file that [`write`] would change, with what is wrong about it.
///
/// # Errors
/// A file that is there and cannot be read.
pub(crate) fn differences(folder: &Path, files: &[File]) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for file in files {
        let path = folder.join(file.name);
        let found = match fs_err::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(error),
        };
        let fault = match (&file.content, found) {
            (None, None) => continue,
            (Some(wanted), Some(found)) if wanted.as_bytes() == found => continue,
            (Some(_), Some(_)) => "differs",
            (Some(_), None) => "is missing",
            (None, Some(_)) => "is no longer yielded by the document",
        };
        lines.push(format!("{} {fault}; regenerate with -outdir", path.display()));
    }
    Ok(lines)
}

/// Creates the folder and its parents, each readable by all.
fn create(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)
        .map_err(|error| io::Error::new(error.kind(), format!("failed to create {}: {error}", folder.display())))
}
