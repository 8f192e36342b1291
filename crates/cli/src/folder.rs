//! A folder as the files of a project, exactly as they travel.
//!
//! What is in the folder is sent and nothing else is: a link that leads out of it is refused rather than followed or dropped,
//! because either would be a surprise. Entries are taken in the order of their names, so one folder has one digest.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use plimsoll_core::ProjectFile;
use plimsoll_core::limits::{MAX_FILE_BYTES, MAX_FILES, MAX_PATH_BYTES};

use crate::failure::Failure;
use crate::words::visible;

/// The name of what is never sent: a repository's own storage, which no step needs and which may hold credentials.
const REPOSITORY: &str = ".git";

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// In the order of their names, folder by folder.
    pub(crate) files: Vec<ProjectFile>,
    /// Paths that were left out.
    pub(crate) left_out: Vec<String>,
}

/// Reads every file below `root`: hidden ones too, `.git` and the folder `out` not.
///
/// # Errors
/// What cannot be read, is not UTF-8 text, is neither a file nor a folder, leads out of the folder, or is more than a project
/// may have. The text names it, the limit and the fix.
pub(crate) fn read(root: &Path, out: Option<&Path>) -> Result<Folder, Failure> {
    let real = root
        .canonicalize()
        .map_err(|error| refused(root, &format!("cannot be read: {error}")))?;
    let mut walk = Walk {
        root,
        // A folder that is not there yet holds nothing that could be sent.
        out: out
            .and_then(|out| fs_err::canonicalize(out).ok())
            .filter(|out| *out != real),
        real,
        left: MAX_FILE_BYTES,
        found: Folder::default(),
    };
    walk.folder("")?;
    Ok(walk.found)
}

struct Walk<'a> {
    root: &'a Path,
    real: PathBuf,
    out: Option<PathBuf>,
    /// Bytes that the files still to come may have together.
    left: usize,
    found: Folder,
}

impl Walk<'_> {
    fn folder(&mut self, below: &str) -> Result<(), Failure> {
        let here = self.root.join(below);
        let names: Result<Vec<OsString>, std::io::Error> = fs_err::read_dir(&here)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect());
        let mut names = names.map_err(|error| Failure::no_program(error.to_string()))?;
        names.sort_unstable();
        for name in names {
            let Some(name) = name.to_str() else {
                return Err(refused(&here.join(&name), "has a name that is not UTF-8; rename it"));
            };
            let path = if below.is_empty() {
                name.to_owned()
            } else {
                format!("{below}/{name}")
            };
            self.entry(path, name)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: String, name: &str) -> Result<(), Failure> {
        let at = self.root.join(&path);
        if name == REPOSITORY {
            self.found.left_out.push(path);
            return Ok(());
        }
        if name.chars().any(|c| c == '\\' || c.is_control()) {
            return Err(refused(
                &at,
                "has a backslash or a control character in its name; rename it",
            ));
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(refused(
                &at,
                &format!("has a path over {MAX_PATH_BYTES} bytes below the folder, the most one may have; shorten it"),
            ));
        }
        let kind = fs_err::symlink_metadata(&at)
            .map_err(|error| Failure::no_program(error.to_string()))?
            .file_type();
        if kind.is_symlink() {
            let target = self.behind(&at)?;
            self.file(path, &target)
        } else if kind.is_file() {
            self.file(path, &at)
        } else if !kind.is_dir() {
            Err(refused(
                &at,
                "is neither a file nor a folder; a project has regular files: move it out of the folder",
            ))
        } else if self.is_out(&at) {
            self.found.left_out.push(path);
            Ok(())
        } else {
            self.folder(&path)
        }
    }

    fn is_out(&self, at: &Path) -> bool {
        self.out
            .as_ref()
            .is_some_and(|out| fs_err::canonicalize(at).is_ok_and(|real| real == *out))
    }

    /// The file behind a link, if it is one of this folder's.
    fn behind(&self, at: &Path) -> Result<PathBuf, Failure> {
        let Ok(target) = fs_err::canonicalize(at) else {
            return Err(refused(at, "is a link that leads nowhere; mend or remove it"));
        };
        if !target.starts_with(&self.real) {
            return Err(refused(
                at,
                "is a link that leads out of the folder; a project takes only what is in its folder: put a copy there",
            ));
        }
        if target.is_file() {
            Ok(target)
        } else {
            Err(refused(
                at,
                "is a link to something that is no file; put that itself in its place",
            ))
        }
    }

    fn file(&mut self, path: String, at: &Path) -> Result<(), Failure> {
        if self.found.files.len() == MAX_FILES {
            return Err(refused(
                at,
                &format!(
                    "is file number {} of the folder, and a project has at most {MAX_FILES}; run a smaller folder, or leave out what a step can make",
                    MAX_FILES + 1
                ),
            ));
        }
        let mut bytes = Vec::new();
        // One byte past what is left is enough to know.
        let limit = u64::try_from(self.left).unwrap_or(u64::MAX).saturating_add(1);
        fs_err::File::open(at)
            .and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
            .map_err(|error| Failure::no_program(error.to_string()))?;
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            return Err(refused(
                at,
                &format!(
                    "takes the folder's files over {MAX_FILE_BYTES} bytes, the most they may have together; run a smaller folder, or leave out what a step can make"
                ),
            ));
        };
        self.left = left;
        let content = String::from_utf8(bytes).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            refused(
                at,
                &format!("is not UTF-8 text (byte {byte}), and a project's files are text; move it out of the folder, or send it encoded and decode it in a step"),
            )
        })?;
        self.found.files.push(ProjectFile { path, content });
        Ok(())
    }
}

fn refused(at: &Path, why: &str) -> Failure {
    Failure::no_program(format!("{} {why}", visible(&at.display().to_string())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let at = folder.path().join(path);
            fs_err::create_dir_all(at.parent().unwrap()).unwrap();
            fs_err::write(at, content).unwrap();
        }
        folder
    }

    fn told(folder: &tempfile::TempDir) -> String {
        let line = read(folder.path(), None).unwrap_err().line();
        line.replace(folder.path().to_str().unwrap(), "DIR")
    }

    #[test]
    fn every_file_is_sent_in_the_order_of_names_but_the_repository_and_the_results() {
        let folder = folder(&[
            ("b.js", b"2"),
            ("a/z.txt", b"\0"),
            ("a/.hidden", b""),
            (".git/config", b"secret"),
            ("a/.git", b"gitdir"),
            ("out/old.bin", b"\xff"),
        ]);
        symlink("b.js", folder.path().join("c.js")).unwrap();
        let found = read(folder.path(), Some(&folder.path().join("out"))).unwrap();
        let files: Vec<(&str, &str)> = found
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.content.as_str()))
            .collect();
        assert_eq!(
            files,
            [("a/.hidden", ""), ("a/z.txt", "\0"), ("b.js", "2"), ("c.js", "2")]
        );
        assert_eq!(found.left_out, [".git", "a/.git", "out"]);
    }

    #[test]
    fn the_folder_itself_as_the_place_of_results_leaves_nothing_out() {
        let folder = folder(&[("a", b"1")]);
        let found = read(folder.path(), Some(folder.path())).unwrap();
        assert_eq!((found.files.len(), found.left_out.len()), (1, 0));
    }

    #[test]
    fn what_cannot_travel_is_named_with_the_fix() {
        let mut lines = vec![told(&folder(&[("a/image.png", b"\x89PNG")]))];
        lines.push(told(&folder(&[("a\\b", b"")])));
        for target in ["/etc/hostname", "..", "nowhere", "sub"] {
            let folder = folder(&[("sub/file", b"")]);
            symlink(target, folder.path().join("a-link")).unwrap();
            lines.push(told(&folder));
        }
        let big = vec![b'x'; MAX_FILE_BYTES];
        lines.push(told(&folder(&[("a", &big), ("b", b"1")])));
        assert_eq!(read(folder(&[("a", &big)]).path(), None).unwrap().files.len(), 1);
        let names: Vec<String> = (0..=MAX_FILES).map(|number| format!("{number:03}")).collect();
        let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        lines.push(told(&folder(&many)));
        assert_eq!(read(folder(&many[1..]).path(), None).unwrap().files.len(), MAX_FILES);
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(told(&folder).contains("DIR/pipe is neither a file nor a folder"));
    }
}
