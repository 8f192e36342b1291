//! The release archive: its digest first, then the executables it must hold, and nothing else of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha512};
use tar::EntryType;
use thiserror::Error;

use crate::pins::{Arch, ArchivePins, Executable};
use crate::process::{ProcessError, Program};
use crate::register::{HOST_UDS, RUNTIME};

/// The window that `zstd` itself still decodes without being told to.
const MAX_WINDOW: u64 = 128 * 1024 * 1024;

/// Why an archive is not the pinned release.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// It could not be read or unpacked.
    #[error("the archive cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It holds other bytes.
    #[error(
        "the archive is not {label} for {arch}: its SHA-512 is {found}, and {expected} is pinned. Nothing was unpacked; download it again"
    )]
    Digest {
        /// The pinned release.
        label: String,
        /// The processor it was compared for.
        arch: &'static str,
        /// In hex.
        found: String,
        /// In hex.
        expected: String,
    },
    /// An executable is not in it.
    #[error("{0} is not in the archive")]
    Absent(Executable),
    /// An executable is in it twice, so that one would hide the other.
    #[error("{0} is in the archive twice")]
    Twice(Executable),
    /// A link, a folder or a device under the name of an executable.
    #[error("{0} is not a regular file in the archive")]
    NotRegular(Executable),
    /// A file that nobody may run under the name of an executable.
    #[error("{0} is not executable in the archive")]
    NotExecutable(Executable),
    /// Its own installer fails.
    #[error("the trial of `runsc install` failed: {0}")]
    Trial(ProcessError),
    /// Its own installer does something else than asked.
    #[error("the trial of `runsc install` did not register {} with {HOST_UDS}", .0.display())]
    TrialConfig(PathBuf),
}

/// Bytes that are an archive, digested on their way into a file that has no name and that nobody else can change.
#[derive(Debug)]
pub(crate) struct Incoming {
    file: File,
    digest: Sha512,
}

impl Incoming {
    /// An empty one, in this folder.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile_in(folder)?,
            digest: Sha512::new(),
        })
    }

    /// The whole of a file.
    pub(crate) fn of_file(path: &Path, folder: &Path) -> io::Result<Self> {
        let mut incoming = Self::new(folder)?;
        let mut source = fs::File::open(path)?;
        let mut piece = vec![0; 1024 * 1024];
        loop {
            let read = source.read(&mut piece)?;
            if read == 0 {
                return Ok(incoming);
            }
            incoming.push(piece.get(..read).unwrap_or_default())?;
        }
    }

    /// The next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.file.write_all(bytes)
    }

    /// The archive, if these bytes are the pinned ones.
    ///
    /// # Errors
    /// When their digest is another.
    pub(crate) fn verified(mut self, pins: &ArchivePins, arch: Arch) -> Result<Verified, ArchiveError> {
        let found = hex(&self.digest.finalize());
        let expected = pins.sha512(arch);
        if found != expected {
            return Err(ArchiveError::Digest {
                label: pins.label(),
                arch: arch.as_str(),
                found,
                expected: expected.to_owned(),
            });
        }
        self.file.rewind()?;
        Ok(Verified(self.file))
    }
}

/// An archive whose digest is the pinned one.
#[derive(Debug)]
pub(crate) struct Verified(File);

impl Verified {
    /// Writes the listed executables below `folder` and nothing else, so that no path of the archive decides where a file
    /// goes.
    ///
    /// # Errors
    /// When one is missing, or is anything but a regular executable file.
    pub(crate) fn unpack(self, executables: &[Executable], folder: &Path) -> Result<(), ArchiveError> {
        let mut archive = tar::Archive::new(Frames::new(BufReader::new(self.0)));
        let mut missing: Vec<&Executable> = executables.iter().collect();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path_bytes();
            let path = path.strip_prefix(b"./").unwrap_or(&path);
            let Some(executable) = executables.iter().find(|one| one.as_str().as_bytes() == path) else {
                continue;
            };
            if entry.header().entry_type() != EntryType::Regular {
                return Err(ArchiveError::NotRegular(executable.clone()));
            }
            if entry.header().mode()? & 0o111 == 0 {
                return Err(ArchiveError::NotExecutable(executable.clone()));
            }
            let Some(index) = missing.iter().position(|one| *one == executable) else {
                return Err(ArchiveError::Twice(executable.clone()));
            };
            missing.swap_remove(index);
            write_executable(&mut entry, &folder.join(executable.as_str()))?;
        }
        match missing.first() {
            None => Ok(()),
            Some(first) => Err(ArchiveError::Absent((*first).clone())),
        }
    }
}

fn write_executable(content: &mut impl Read, path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create_new(path)?;
    io::copy(content, &mut file)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}

/// Lets the unpacked `runsc` register itself in a configuration that nobody uses: a release that cannot do that, or that
/// lacks the executables it wants beside it, is found out before it is installed. `folder` holds it.
///
/// # Errors
/// When it fails, or registers something else.
pub(crate) fn trial(folder: &Path) -> Result<(), ArchiveError> {
    let runsc = folder.join("runsc");
    let config = folder.join("trial.json");
    let install = Program::new(
        &runsc,
        [
            "install".as_ref(),
            "--config_file".as_ref(),
            config.as_os_str(),
            "--runtime".as_ref(),
            RUNTIME.as_ref(),
            "--download-sidecars=NEVER".as_ref(),
            "--require-sidecars=ALWAYS".as_ref(),
            "--".as_ref(),
            HOST_UDS.as_ref(),
        ],
    );
    install.answer().map_err(ArchiveError::Trial)?;
    let text = fs::read_to_string(&config)?;
    fs::remove_file(&config)?;
    let written: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let entry = &written["runtimes"][RUNTIME];
    let args = entry["runtimeArgs"].as_array().map_or(&[][..], Vec::as_slice);
    if entry["path"].as_str().map(Path::new) != Some(&runsc) || !args.iter().any(|arg| arg == HOST_UDS) {
        return Err(ArchiveError::TrialConfig(runsc));
    }
    Ok(())
}

/// The frames of a Zstandard file, one after the other: a compressor may write several, and others that hold no data.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    begun: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self {
            source,
            decoder,
            begun: false,
        }
    }

    fn begin_next(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.source) {
            Ok(()) => self.begun = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                self.begun = false;
                io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            while self.begun && self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            if self.begun && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.begin_next()?;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
