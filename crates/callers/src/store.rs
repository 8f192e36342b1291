//! Editing a registry's file: alone, and so that its readers see the old file or the new one, whole.
//!
//! ```text
//!  lock ─► load ─► change ─► validate ─► temporary file, fsync ─► rename ─► fsync of the folder ─► unlock
//!  └─────────────── the old file stays, byte for byte ───────────────┘ └──── the new file is there ────┘
//! ```

use std::fs::Metadata;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::change::{Change, ChangeError};
use crate::file::{self, Client, ClientsError, MAX_BYTES};

/// How the temporary file beside the registry begins.
const TEMPORARY: &str = ".plimsoll-clients-";

/// What to do where there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Make one, readable and writable by its owner alone.
    Create,
    /// Refuse.
    Refuse,
}

/// A registry that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// How many callers it has.
    pub callers: usize,
    /// Whether the file has the owner and group of the one it took the place of.
    pub owner_kept: bool,
}

/// Why a registry was not edited as it should be.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The path ends in no name.
    #[error("the path names no file")]
    NoName,
    /// Another editor is at work, or one was killed.
    #[error(
        "another editor holds the lock {}{}; remove that folder only when no editor is running",
        .lock.display(),
        .age.map_or_else(String::new, |age| format!(", made {} ago", in_words(age)))
    )]
    Locked {
        /// The lock's path.
        lock: PathBuf,
        /// How long ago it was made, where the system can tell.
        age: Option<Duration>,
    },
    /// The lock cannot be made.
    #[error("the lock {} cannot be made: {error}", .lock.display())]
    NoLock {
        /// The lock's path.
        lock: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The file cannot be used as it is.
    #[error(transparent)]
    Load(ClientsError),
    /// The change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The registry would break a rule afterwards.
    #[error("the change is refused: {0}")]
    Invalid(ClientsError),
    /// The new file could not be written, or not put in the old one's place.
    #[error("the registry is unchanged, because it could not be written: {0}")]
    NotWritten(io::Error),
    /// The new file is there, and what comes after that failed.
    #[error("the registry was replaced, and then {step} failed: {error}; inspect it")]
    Replaced {
        /// What failed.
        step: &'static str,
        /// How.
        error: io::Error,
    },
}

impl EditError {
    /// Whether the new registry is in force all the same.
    pub const fn replaced(&self) -> bool {
        matches!(self, Self::Replaced { .. })
    }
}

/// Makes one change to the registry at `path`.
///
/// # Errors
/// The registry is as it was, unless the error says that it was replaced.
pub fn edit(path: &Path, absent: Absent, change: Change) -> Result<Saved, EditError> {
    edit_by(path, absent, |clients| change.apply(clients))
}

fn edit_by(
    path: &Path,
    absent: Absent,
    change: impl FnOnce(&mut Vec<Client>) -> Result<(), ChangeError>,
) -> Result<Saved, EditError> {
    let mut beside = path.file_name().ok_or(EditError::NoName)?.to_owned();
    beside.push(".lock");
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let lock = Lock::take(path.with_file_name(beside))?;
    let (mut clients, old) = match file::load_itself(path) {
        Ok((file, metadata)) => (file.clients, Some(metadata)),
        Err(ClientsError::Missing) if absent == Absent::Create => (Vec::new(), None),
        Err(error) => return Err(EditError::Load(error)),
    };
    change(&mut clients)?;
    let bytes = validated(&clients)?;
    // Opened while nothing has changed: who may not do that is told so, and keeps the old file.
    let entries = fs_err::File::open(folder).map_err(EditError::NotWritten)?;
    let owner_kept = replace(path, folder, &bytes, old.as_ref()).map_err(EditError::NotWritten)?;
    let later = |step| move |error| EditError::Replaced { step, error };
    let synced = entries
        .sync_all()
        .map_err(later("making the folder's new entry durable"));
    let unlocked = lock.release().map_err(later("removing the lock"));
    synced.and(unlocked)?;
    Ok(Saved {
        callers: clients.len(),
        owner_kept,
    })
}

/// The file these callers make, after the parser has read it back.
fn validated(clients: &[Client]) -> Result<Vec<u8>, EditError> {
    let bytes = file::to_json(clients);
    if bytes.len() > MAX_BYTES {
        return Err(EditError::Invalid(ClientsError::TooLarge));
    }
    file::parse(&bytes).map_err(EditError::Invalid)?;
    Ok(bytes)
}

/// Puts a new file in the old one's place, or where none is; answers whether owner and group are the old ones.
fn replace(path: &Path, folder: &Path, bytes: &[u8], old: Option<&Metadata>) -> io::Result<bool> {
    // Made with mode 0600; whatever fails from here on, it is removed.
    let mut new = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?;
    new.write_all(bytes)?;
    let owner_kept = match old {
        Some(old) => keep(new.as_file(), old)?,
        None => true,
    };
    new.as_file().sync_all()?;
    // Closed before it is renamed.
    let new = new.into_temp_path();
    let put = match old {
        Some(_) => new.persist(path),
        // Nobody who made one meanwhile, without the lock, loses it.
        None => new.persist_noclobber(path),
    };
    put.map_err(|refused| refused.error)?;
    Ok(owner_kept)
}

/// Owner and group where this user may give them, then the permission bits, which giving away would reduce.
fn keep(new: &std::fs::File, old: &Metadata) -> io::Result<bool> {
    let mut own = new.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        // A user may give a file to a group of their own, and to nobody else; what was given is looked at below.
        if fchown(new, Some(old.uid()), Some(old.gid())).is_err() {
            let _told_by_what_is_seen = fchown(new, None, Some(old.gid()));
        }
        own = new.metadata()?;
    }
    new.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o777))?;
    Ok((own.uid(), own.gid()) == (old.uid(), old.gid()))
}

/// The folder beside the registry that only one editor can make. One that is killed leaves it behind on purpose: nobody
/// else knows how far it came.
struct Lock(Option<PathBuf>);

impl Lock {
    fn take(lock: PathBuf) -> Result<Self, EditError> {
        match std::fs::DirBuilder::new().mode(0o700).create(&lock) {
            Ok(()) => Ok(Self(Some(lock))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let made = fs_err::symlink_metadata(&lock).and_then(|lock| lock.modified());
                let age = made.ok().and_then(|made| made.elapsed().ok());
                Err(EditError::Locked { lock, age })
            }
            Err(error) => Err(EditError::NoLock { lock, error }),
        }
    }

    fn release(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), fs_err::remove_dir)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(lock) = self.0.take() {
            // The error that leads here is told; whoever comes next is told of the lock.
            let _next_editor_is_told = fs_err::remove_dir(lock);
        }
    }
}

/// A time in the largest unit that it fills.
fn in_words(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(id: &str, digest: u8) -> Client {
        Client {
            id: id.to_owned(),
            token_sha256: [digest; 32],
            scopes: Vec::new(),
            paid_seconds_per_day: 0,
        }
    }

    fn add(id: &str, digest: u8) -> Change {
        Change::Add(caller(id, digest))
    }

    fn ids(path: &Path) -> Vec<String> {
        let file = file::load_itself(path).unwrap().0;
        file.clients.into_iter().map(|client| client.id).collect()
    }

    /// What is in the folder, by name.
    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs_err::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        assert!(matches!(
            edit(&path, Absent::Refuse, add("a", 1)),
            Err(EditError::Load(ClientsError::Missing))
        ));
        let saved = edit(&path, Absent::Create, add("a", 1)).unwrap();
        assert_eq!((saved.callers, saved.owner_kept, mode(&path)), (1, true, 0o600));
        for bits in [0o640, 0o444, 0o620] {
            fs_err::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
            let digest = u8::try_from(bits % 251).unwrap();
            edit(&path, Absent::Create, add(&bits.to_string(), digest)).unwrap();
            assert_eq!(mode(&path), bits);
        }
        assert_eq!(ids(&path).len(), 4);
        assert_eq!(names(folder.path()), ["clients.json"]);
    }

    #[test]
    fn a_second_editor_is_told_of_the_lock_and_its_age_and_loses_nothing_by_coming_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        edit(&path, Absent::Create, add("a", 1)).unwrap();
        let outer = edit_by(&path, Absent::Refuse, |clients| {
            let locked = edit(&path, Absent::Refuse, add("b", 2)).unwrap_err();
            let text = locked.to_string();
            assert!(
                text.contains("clients.json.lock, made 0 s ago") && text.contains("only when no editor is running"),
                "{text}"
            );
            assert_eq!(mode(&folder.path().join("clients.json.lock")), 0o700);
            add("c", 3).apply(clients)
        });
        assert_eq!(outer.unwrap().callers, 2);
        edit(&path, Absent::Refuse, add("b", 2)).unwrap();
        assert_eq!(ids(&path), ["a", "c", "b"]);
        assert_eq!(names(folder.path()), ["clients.json"]);
    }

    #[test]
    fn a_refused_edit_leaves_the_file_byte_for_byte_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        // Not as the editor would write it, so that writing it anew would show.
        let before = br#"{"clients":[{"token_sha256":"0101010101010101010101010101010101010101010101010101010101010101","id":"a"}]}"#;
        fs_err::write(&path, before).unwrap();
        let unknown = Change::Revoke { id: "x".to_owned() };
        let bad_scope = Change::Add(Client {
            scopes: vec!["two words".to_owned()],
            ..caller("b", 2)
        });
        for change in [add("a", 2), add("b", 1), add("*", 2), add("", 2), unknown, bad_scope] {
            edit(&path, Absent::Create, change.clone()).unwrap_err();
            assert_eq!(fs_err::read(&path).unwrap(), before, "{change:?}");
            assert_eq!(names(folder.path()), ["clients.json"], "{change:?}");
        }
    }

    #[test]
    fn links_folders_and_files_that_are_no_registry_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs_err::write(at("target"), "{\"clients\":[]}").unwrap();
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        fs_err::create_dir(at("folder")).unwrap();
        fs_err::write(at("malformed"), "{\"clients\":").unwrap();
        let before = names(folder.path());
        for name in ["link", "folder", "malformed"] {
            let refused = edit(&at(name), Absent::Create, add("a", 1)).unwrap_err();
            assert!(matches!(refused, EditError::Load(_)), "{refused}");
        }
        assert!(matches!(
            edit(Path::new("/"), Absent::Create, add("a", 1)),
            Err(EditError::NoName)
        ));
        assert!(matches!(
            edit(&at("none/clients.json"), Absent::Create, add("a", 1)),
            Err(EditError::NoLock { .. })
        ));
        assert_eq!(names(folder.path()), before);
        assert_eq!(fs_err::read(at("target")).unwrap(), b"{\"clients\":[]}");
        assert_eq!(fs_err::read(at("malformed")).unwrap(), b"{\"clients\":");
    }

    #[test]
    fn what_cannot_be_put_in_place_is_not_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        edit(&path, Absent::Create, add("a", 1)).unwrap();
        let refused = edit_by(&path, Absent::Refuse, |clients| {
            fs_err::remove_file(&path).unwrap();
            fs_err::create_dir(&path).unwrap();
            add("b", 2).apply(clients)
        });
        assert!(matches!(refused, Err(EditError::NotWritten(_))), "{refused:?}");
        assert_eq!(names(folder.path()), ["clients.json"]);
        // Made by somebody who does not ask for the lock: theirs stays.
        fs_err::remove_dir(&path).unwrap();
        let refused = edit_by(&path, Absent::Create, |clients| {
            fs_err::write(&path, "theirs").unwrap();
            add("b", 2).apply(clients)
        });
        assert!(matches!(refused, Err(EditError::NotWritten(_))), "{refused:?}");
        assert_eq!(fs_err::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["clients.json"]);
    }

    #[test]
    fn a_failure_after_the_new_file_is_in_place_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        let lock = folder.path().join("clients.json.lock");
        let failed = edit_by(&path, Absent::Create, |clients| {
            fs_err::write(lock.join("in the way"), "").unwrap();
            add("a", 1).apply(clients)
        })
        .unwrap_err();
        assert!(failed.replaced(), "{failed}");
        let text = failed.to_string();
        assert!(
            text.starts_with("the registry was replaced, and then removing the lock failed: ")
                && text.contains("inspect it"),
            "{text}"
        );
        assert_eq!(ids(&path), ["a"]);
    }

    #[test]
    fn editors_at_once_lose_no_edit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        std::thread::scope(|scope| {
            for digest in 1..=8u8 {
                let path = &path;
                scope.spawn(move || {
                    while let Err(error) = edit(path, Absent::Create, add(&digest.to_string(), digest)) {
                        assert!(matches!(error, EditError::Locked { .. }), "{error}");
                        std::thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(ids(&path).len(), 8);
        assert_eq!(names(folder.path()), ["clients.json"]);
    }

    #[test]
    fn an_age_is_told_in_the_largest_unit_it_fills() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (7200, "2 h"),
            (86_399, "23 h"),
            (200_000, "2 d"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
