//! The engine's artifact as an open file, which wasmtime maps: of its machine code and memory image only the pages that a
//! run uses are ever touched. Loading it from a slice would copy all of it twice.
//!
//! A daemon writes it once into memory. A process that lives for one run would spend most of its time on that, so it may
//! keep the file in a folder of its user's and map it there the next time.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, Dir, FileType, MemfdFlags, Mode, OFlags, SealFlags, Stat, fchmod, fcntl_add_seals, fstat, fsync,
    memfd_create, openat, renameat, statat, unlinkat,
};
use rustix::process::{geteuid, getpid};

/// The engine's machine code and memory image, made by the build script, without the pages that hold only zeros.
static PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/engine.pages"));

/// Where they belong.
static RUNS: Runs = include!(concat!(env!("OUT_DIR"), "/engine.runs"));

/// Thirty days, in seconds.
const MONTH: u64 = 30 * 24 * 60 * 60;

/// Names the kept file: two artifacts that differ in one byte have two names.
const DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/engine.artifact"));

struct Runs {
    /// Size of the whole artifact, in bytes.
    size: u64,
    /// Offset and length of each run of kept pages, in the order of [`PAGES`].
    runs: &'static [(u64, usize)],
}

/// The artifact, whole, in a file that nobody else can change.
#[derive(Debug)]
pub(crate) struct Artifact(File);

impl Artifact {
    /// In memory: a file without a name, sealed against every later write.
    ///
    /// # Errors
    /// The host has no memory files, or no memory.
    pub(crate) fn in_memory() -> io::Result<Self> {
        let file = File::from(memfd_create(
            c"plimsoll-engine",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?);
        write(&file)?;
        fcntl_add_seals(
            &file,
            SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        Ok(Self(file))
    }

    /// In a folder: the file a former process of this user left there, else one that is written now. The folder is made
    /// where it is missing, for this user alone.
    ///
    /// Machine code is taken from a file only if nobody but this user (or root) can have written it: folder and file
    /// belong to the effective user, neither can be written by group or others, neither is a link, and the file is an
    /// ordinary one, read-only, of the artifact's size, under the artifact's digest as its name.
    ///
    /// # Errors
    /// The folder cannot be made, written, or trusted.
    pub(crate) fn kept_in(folder: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        if !ours_alone(&fstat(&folder)?, FileType::Directory) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "the folder can be written by others",
            ));
        }
        let name = format!("engine-{DIGEST}");
        match open(&folder, &name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                forget_old(&folder)?;
                leave(&folder, &name)?;
                open(&folder, &name)
            }
            opened => opened,
        }
    }

    /// Another descriptor of the same file.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Opens the kept file if it is what it must be.
fn open(folder: &OwnedFd, name: &str) -> io::Result<Artifact> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    if ours_alone(&stat, FileType::RegularFile)
        && stat.st_mode & 0o222 == 0
        && u64::try_from(stat.st_size) == Ok(RUNS.size)
    {
        Ok(Artifact(file.into()))
    } else {
        Err(io::Error::new(ErrorKind::InvalidData, "not a file this user left here"))
    }
}

/// Writes the file under a name of this process, whole and on the disk, before it gets the name others look for.
fn leave(folder: &OwnedFd, name: &str) -> io::Result<()> {
    let unfinished = format!("{name}.{}", getpid());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, &*unfinished, flags, Mode::RUSR | Mode::WUSR)?);
    let left = write(&file)
        .and_then(|()| Ok(fchmod(&file, Mode::RUSR)?))
        .and_then(|()| Ok(fsync(file.as_fd())?))
        .and_then(|()| Ok(renameat(folder, &*unfinished, folder, name)?));
    if left.is_err() {
        // What was left half-written has a name that nobody reads; the first error is the one to tell.
        let _: Result<(), _> = unlinkat(folder, &*unfinished, AtFlags::empty());
    }
    left
}

/// Removes what other versions, or processes that died, left here a month ago or earlier.
fn forget_old(folder: &OwnedFd) -> io::Result<()> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !name.to_bytes().starts_with(b"engine-") {
            continue;
        }
        let written = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mtime;
        if u64::try_from(written).is_ok_and(|written| written + MONTH < now.as_secs()) {
            unlinkat(folder, &name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn ours_alone(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind && stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0
}

/// Writes the kept pages where they belong; the rest are holes.
fn write(file: &File) -> io::Result<()> {
    file.set_len(RUNS.size)?;
    let mut rest = PAGES;
    for (offset, length) in RUNS.runs {
        let (run, after) = rest.split_at(*length);
        file.write_all_at(run, *offset)?;
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use fs_err as fs;

    use super::*;

    fn kept(folder: &Path) -> PathBuf {
        folder.join(format!("engine-{DIGEST}"))
    }

    fn content(artifact: &Artifact) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(RUNS.size).unwrap()];
        artifact.0.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_kept_file_holds_what_the_memory_file_holds_and_is_used_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let first = Artifact::kept_in(&folder).unwrap();
        assert!(content(&first) == content(&Artifact::in_memory().unwrap()));
        let written = fs::metadata(kept(&folder)).unwrap();
        assert_eq!(written.permissions().mode() & 0o7777, 0o400);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o700);
        Artifact::kept_in(&folder).unwrap();
        let again = fs::metadata(kept(&folder)).unwrap();
        assert_eq!(written.modified().unwrap(), again.modified().unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn what_others_could_have_written_is_not_taken() {
        let refused = |spoil: fn(&Path)| {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join("cache");
            Artifact::kept_in(&folder).unwrap();
            spoil(&folder);
            Artifact::kept_in(&folder).unwrap_err();
        };
        refused(|folder| fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap());
        refused(|folder| fs::set_permissions(folder, PermissionsExt::from_mode(0o720)).unwrap());
        refused(|folder| fs::set_permissions(kept(folder), PermissionsExt::from_mode(0o600)).unwrap());
        refused(|folder| fs::set_permissions(kept(folder), PermissionsExt::from_mode(0o460)).unwrap());
        refused(|folder| {
            let elsewhere = folder.join("elsewhere");
            fs::rename(kept(folder), &elsewhere).unwrap();
            symlink(&elsewhere, kept(folder)).unwrap();
        });
        refused(|folder| {
            let bytes = fs::read(kept(folder)).unwrap();
            fs::remove_file(kept(folder)).unwrap();
            fs::write(kept(folder), &bytes[..bytes.len() - 1]).unwrap();
            fs::set_permissions(kept(folder), PermissionsExt::from_mode(0o400)).unwrap();
        });
        refused(|folder| {
            fs::rename(folder, folder.with_extension("moved")).unwrap();
            symlink(folder.with_extension("moved"), folder).unwrap();
        });
    }

    #[test]
    fn files_of_other_versions_go_after_a_month() {
        let home = tempfile::tempdir().unwrap();
        let (old, new) = (home.path().join("engine-old"), home.path().join("engine-new"));
        let month_ago = SystemTime::now() - std::time::Duration::from_secs(MONTH + 60);
        fs::write(&new, "").unwrap();
        fs::write(&old, "").unwrap();
        let file = fs::OpenOptions::new().write(true).open(&old).unwrap();
        file.set_times(std::fs::FileTimes::new().set_modified(month_ago))
            .unwrap();
        Artifact::kept_in(home.path()).unwrap();
        assert!(new.exists() && !old.exists());
    }

    #[test]
    fn an_unfinished_file_of_another_process_is_never_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("cache");
        Artifact::kept_in(&folder).unwrap();
        let unfinished = folder.join(format!("engine-{DIGEST}.1"));
        fs::rename(kept(&folder), &unfinished).unwrap();
        Artifact::kept_in(&folder).unwrap();
        assert!(kept(&folder).exists() && unfinished.exists());
    }
}
