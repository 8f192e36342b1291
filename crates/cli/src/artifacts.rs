//! The files a project leaves, written below one folder and nowhere else.
//!
//! Their paths come from the command line, but their bytes come from code nobody vouches for, and the folder may hold links:
//! every step down is taken without following one.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use plimsoll_core::{Artifact, Code};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::words::visible;

/// Where artifacts go, and what is done about files that are there already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out<'a> {
    pub(crate) folder: &'a Path,
    /// Replaces files that exist.
    pub(crate) force: bool,
}

impl Out<'_> {
    /// Refuses, before anything runs, what could not be written afterwards.
    ///
    /// # Errors
    /// A file that is there already and may not be replaced, a folder in a file's place, or a link in a folder's.
    pub(crate) fn check(&self, paths: &[String]) -> Result<(), Failure> {
        for path in paths {
            if let Some(link) = self.link_above(path) {
                return Err(Failure::no_program(format!(
                    "{} is a link, and no artifact is written through one; choose another --out",
                    visible(&link.display().to_string())
                )));
            }
            let at = self.folder.join(path);
            match at.symlink_metadata() {
                Ok(there) if there.is_dir() => {
                    return Err(Failure::no_program(format!(
                        "{} is a folder, and the artifact of that path is a file; choose another --out",
                        at.display()
                    )));
                }
                Ok(_) if !self.force => {
                    return Err(Failure::no_program(format!(
                        "{} exists; choose another --out, or replace it with --force",
                        at.display()
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return Err(Failure::no_program(format!(
                        "{} cannot be made: a file is in the place of one of its folders; choose another --out",
                        at.display()
                    )));
                }
                // What is not there, or is in no folder yet, is made.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// The first link among the folders of a path, below the folder of all of them.
    fn link_above(&self, path: &str) -> Option<PathBuf> {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        folders
            .map(|folder| self.folder.join(folder))
            .find(|at| at.is_symlink())
    }

    /// Writes what can be written. The others are taken out of `artifacts`, and the lines say why: the run has been
    /// answered, whatever becomes of its files here.
    pub(crate) fn write(&self, artifacts: &mut Vec<Artifact>) -> Vec<String> {
        if artifacts.is_empty() {
            return Vec::new();
        }
        let folder = match self.open() {
            Ok(folder) => folder,
            Err(error) => {
                artifacts.clear();
                return vec![format!(
                    "no artifact could be written to {}: {error}",
                    shown(self.folder)
                )];
            }
        };
        let mut lost = Vec::new();
        artifacts.retain(|artifact| match self.one(&folder, artifact) {
            Ok(()) => true,
            Err(error) => {
                let at = self.folder.join(&artifact.path);
                lost.push(format!("the artifact could not be written to {}: {error}", shown(&at)));
                false
            }
        });
        lost
    }

    fn open(&self) -> io::Result<OwnedFd> {
        fs_err::create_dir_all(self.folder)?;
        Ok(rustix::fs::open(
            self.folder,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    fn one(&self, folder: &OwnedFd, artifact: &Artifact) -> io::Result<()> {
        let (parents, name) = match artifact.path.rsplit_once('/') {
            Some((parents, name)) => (parents.split('/').collect(), name),
            None => (Vec::new(), artifact.path.as_str()),
        };
        let mut at = folder.try_clone()?;
        for parent in parents {
            match rustix::fs::mkdirat(&at, parent, Mode::from_bits_retain(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = rustix::fs::openat(&at, parent, flags, Mode::empty())?;
        }
        if self.force {
            // The name goes, whatever it is the name of: a link is not written through.
            match rustix::fs::unlinkat(&at, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&at, name, flags, Mode::from_bits_retain(0o666))?;
        std::fs::File::from(file).write_all(&artifact.content)
    }
}

/// The paths of `asked` that no artifact has.
pub(crate) fn missing<'a>(artifacts: &[Artifact], asked: &'a [String]) -> Vec<&'a str> {
    let there: HashSet<&str> = artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    asked
        .iter()
        .map(String::as_str)
        .filter(|path| !there.contains(path))
        .collect()
}

/// Whether an answer holds nothing but what was asked for, and nothing twice.
///
/// # Errors
/// An artifact nobody asked for: then the answer is not one to this request.
pub(crate) fn only_asked(artifacts: &[Artifact], asked: &[String]) -> Result<(), Failure> {
    let mut left: HashSet<&str> = asked.iter().map(String::as_str).collect();
    match artifacts.iter().find(|artifact| !left.remove(artifact.path.as_str())) {
        None => Ok(()),
        Some(artifact) => Err(Failure::may_have_run(
            Code::DataLoss,
            format!("the answer holds artifact {:?}, which was not asked for", artifact.path),
        )),
    }
}

fn shown(at: &Path) -> String {
    visible(&at.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn artifact(path: &str) -> Artifact {
        Artifact {
            path: path.to_owned(),
            content: vec![0, 255, b'\n'],
        }
    }

    fn asked(paths: &[&str]) -> Vec<String> {
        paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn artifacts_are_written_byte_for_byte_with_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let out = Out {
            folder: &folder.path().join("new/out"),
            force: false,
        };
        assert!(out.write(&mut vec![artifact("a/b/c.bin"), artifact("d")]).is_empty());
        assert_eq!(fs_err::read(out.folder.join("a/b/c.bin")).unwrap(), [0, 255, b'\n']);
        assert_eq!(fs_err::read(out.folder.join("d")).unwrap(), [0, 255, b'\n']);
    }

    #[test]
    fn nothing_is_written_through_a_link_or_outside() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), folder.path().join("sub")).unwrap();
        symlink(elsewhere.path().join("victim"), folder.path().join("file")).unwrap();
        fs_err::write(elsewhere.path().join("victim"), "mine").unwrap();
        for force in [false, true] {
            let out = Out {
                folder: folder.path(),
                force,
            };
            let told = out.check(&asked(&["new", "sub/a"])).unwrap_err();
            assert_eq!(told.exit_code(), 125);
            assert!(told.line().contains("sub is a link"), "{}", told.line());
            // The link came to be during the run: the others are written all the same.
            let mut artifacts = vec![artifact("sub/a"), artifact(&format!("new-{force}"))];
            let [lost] = &out.write(&mut artifacts)[..] else {
                panic!("one is lost");
            };
            assert!(lost.contains("sub/a"), "{lost}");
            assert_eq!(artifacts, [artifact(&format!("new-{force}"))]);
        }
        let out = Out {
            folder: folder.path(),
            force: true,
        };
        assert!(out.write(&mut vec![artifact("file")]).is_empty());
        assert_eq!(fs_err::read_to_string(elsewhere.path().join("victim")).unwrap(), "mine");
        assert!(!elsewhere.path().join("a").exists());
        for path in ["../escaped", "/escaped"] {
            // No request asks for such a path, so an answer that holds one is refused by its name.
            only_asked(&[artifact(path)], &asked(&["file"])).unwrap_err();
        }
        assert!(!folder.path().parent().unwrap().join("escaped").exists());
    }

    #[test]
    fn a_file_that_exists_is_refused_before_the_run_unless_it_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("old"), "mine").unwrap();
        fs_err::create_dir_all(folder.path().join("sub")).unwrap();
        let out = |force| Out {
            folder: folder.path(),
            force,
        };
        let told = out(false).check(&asked(&["new", "old"])).unwrap_err();
        assert_eq!(told.exit_code(), 125);
        assert!(told.line().contains("--force"), "{}", told.line());
        out(true).check(&asked(&["new", "old"])).unwrap();
        out(true).check(&asked(&["sub"])).unwrap_err();
        out(false).check(&asked(&["new", "sub/new"])).unwrap();
        // It came to be during the run.
        assert_eq!(out(false).write(&mut vec![artifact("old")]).len(), 1);
        assert_eq!(fs_err::read_to_string(folder.path().join("old")).unwrap(), "mine");
        assert!(out(true).write(&mut vec![artifact("old")]).is_empty());
        assert_eq!(fs_err::read(folder.path().join("old")).unwrap(), [0, 255, b'\n']);
    }

    #[test]
    fn a_folder_that_cannot_be_made_loses_all_of_them_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("file"), "").unwrap();
        let out = Out {
            folder: &folder.path().join("file"),
            force: true,
        };
        let mut artifacts = vec![artifact("a"), artifact("b")];
        assert_eq!((out.write(&mut artifacts).len(), artifacts.len()), (1, 0));
    }

    #[test]
    fn an_answer_holds_each_artifact_once() {
        let twice = [artifact("a"), artifact("a")];
        assert_eq!(only_asked(&twice, &asked(&["a"])).unwrap_err().exit_code(), 123);
        only_asked(&twice[1..], &asked(&["b", "a"])).unwrap();
        assert_eq!(missing(&twice, &asked(&["a", "b"])), ["b"]);
    }
}
