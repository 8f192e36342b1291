//! Puts executables where they belong, each in one step, so that nobody ever runs half of one.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

/// What a folder of ours begins with. It lies in the folder that is installed into: there, executables may run and a
/// rename is one step.
const STAGING: &str = ".plimsoll-gvisor-";

/// Why executables cannot be installed.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// The folder, or a file in it.
    #[error("{} cannot be installed into: {error}", folder.display())]
    Folder {
        /// What was to be installed into.
        folder: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Two at once would install a mixture.
    #[error("another installation into {} is running; wait for it to end", .0.display())]
    Busy(PathBuf),
    /// Anybody who may write there decides what the engine runs as root.
    #[error(
        "{folder} can be written to by everybody, who could replace what the engine runs as root; take that right away \
         first: chmod o-w {folder}",
        folder = .0.display()
    )]
    Writable(PathBuf),
}

/// A folder that is installed into, with a place of our own in it. Held by one process at a time.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    staging: tempfile::TempDir,
    /// Locked as long as it is open.
    _lock: fs::File,
}

impl Place {
    /// Takes the folder, makes it if it is not there, and clears away what a killed installation left in it.
    ///
    /// # Errors
    /// When it cannot be written to, everybody may write to it, or somebody else holds it.
    pub(crate) fn take(folder: &Path) -> Result<Self, PlaceError> {
        let failed = |error: io::Error| PlaceError::Folder {
            folder: folder.to_owned(),
            error,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let folder = fs::canonicalize(folder).map_err(failed)?;
        let lock = fs::File::open(&folder).map_err(failed)?;
        // The group may: Debian gives /usr/local to its group of administrators.
        if lock.metadata().map_err(failed)?.permissions().mode() & 0o002 != 0 {
            return Err(PlaceError::Writable(folder));
        }
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(PlaceError::Busy(folder)),
            Err(error) => return Err(failed(error.into())),
        }
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let staging = tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(&folder)
            .map_err(failed)?;
        Ok(Self {
            folder,
            staging,
            _lock: lock,
        })
    }

    /// Where `runsc` is, or will be.
    pub(crate) fn runsc(&self) -> PathBuf {
        self.folder.join("runsc")
    }

    /// A folder of our own, gone when this is dropped.
    pub(crate) fn staging(&self) -> &Path {
        self.staging.path()
    }

    /// Moves these files of `from`, which must lie in the staging folder, to the same paths here. `runsc` comes last: whoever
    /// finds the new one finds all that it needs.
    ///
    /// # Errors
    /// When one cannot be moved.
    pub(crate) fn install(&self, from: &Path, names: &[&str]) -> Result<(), PlaceError> {
        let (last, first): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| **name == "runsc");
        for name in first.into_iter().chain(last) {
            self.install_one(&from.join(name), &self.folder.join(name))
                .map_err(|error| PlaceError::Folder {
                    folder: self.folder.clone(),
                    error,
                })?;
        }
        Ok(())
    }

    fn install_one(&self, from: &Path, to: &Path) -> io::Result<()> {
        let folder = to.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        fs::File::open(from)?.sync_all()?;
        fs::rename(from, to)?;
        fs::File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::take(&folder.path().join("bin")).unwrap();
        (folder, place)
    }

    #[test]
    fn files_are_moved_to_the_same_paths_and_replace_what_was_there() {
        let (_folder, place) = place();
        let from = place.staging().join("new");
        fs::create_dir_all(from.join("gvisor-bin")).unwrap();
        for name in ["runsc", "gvisor-bin/sentry"] {
            fs::write(from.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("/bin/true", place.runsc()).unwrap();
        place.install(&from, &["runsc", "gvisor-bin/sentry"]).unwrap();
        assert!(
            fs::symlink_metadata(place.runsc()).unwrap().is_file(),
            "the link was written through"
        );
        assert_eq!(fs::read_to_string(place.runsc()).unwrap(), "runsc");
        let sidecar = place.folder.join("gvisor-bin/sentry");
        assert_eq!(fs::read_to_string(sidecar).unwrap(), "gvisor-bin/sentry");
    }

    #[test]
    fn runsc_comes_last_so_a_missing_file_leaves_the_old_one() {
        let (_folder, place) = place();
        let from = place.staging().join("new");
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("runsc"), "new").unwrap();
        fs::write(place.runsc(), "old").unwrap();
        place.install(&from, &["runsc", "shim"]).unwrap_err();
        assert_eq!(fs::read_to_string(place.runsc()).unwrap(), "old");
    }

    #[test]
    fn a_folder_is_held_by_one_installation_and_left_as_it_was() {
        let (folder, place) = place();
        let bin = folder.path().join("bin");
        assert!(matches!(Place::take(&bin), Err(PlaceError::Busy(_))));
        drop(place);
        fs::create_dir_all(bin.join(".plimsoll-gvisor-killed/deep")).unwrap();
        let again = Place::take(&bin).unwrap();
        assert_eq!(
            fs::read_dir(&bin).unwrap().count(),
            1,
            "what a killed installation left is still there"
        );
        drop(again);
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_everybody_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777, 0o757] {
            fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(
                matches!(Place::take(folder.path()), Err(PlaceError::Writable(_))),
                "{mode:o}"
            );
        }
    }
}
