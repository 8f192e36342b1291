//! The whole of it, in order: have it, check it, place it, register it, have the engine show it.

use std::path::{Path, PathBuf};

use plimsoll_core::vars::Lookup;
use thiserror::Error;

use crate::archive::{self, ArchiveError, Incoming};
use crate::engine::{Engine, EngineError, Reload};
use crate::fetch::{FetchError, Fetcher};
use crate::module::{self, ModuleError};
use crate::pins::{Arch, ArchivePins, ModulePins, PinsError};
use crate::place::{Place, PlaceError};
use crate::process::{ProcessError, Program};
use crate::register::{RegisterError, register};

/// Where `runsc` comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The pinned release, downloaded.
    Release,
    /// The pinned release, as a file that is here already.
    Archive(PathBuf),
    /// The pinned Go module, built here.
    Module,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it comes from.
    pub source: Source,
    /// Check it and stop: nothing is placed, registered or told to the engine.
    pub verify_only: bool,
    /// The folder that `runsc` is installed into, with what it needs beside it.
    pub into: PathBuf,
    /// The engine's configuration file; `None` is the one that the running engine was started with.
    pub config: Option<PathBuf>,
    /// The engine's socket.
    pub socket: PathBuf,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// What `runsc --version` calls itself.
    pub label: String,
    /// What stands behind it.
    pub placed: Option<Placed>,
}

/// What was placed and registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The executable.
    pub runsc: PathBuf,
    /// The configuration file that has it.
    pub config: PathBuf,
    /// Whether it was there already, in this version.
    pub was_there: bool,
    /// Whether the configuration was changed.
    pub registered_now: bool,
    /// What it took until the engine showed it.
    pub reload: Reload,
}

/// Why it was not done, or not wholly.
#[derive(Debug, Error)]
pub enum Error {
    /// The data of this build, or the processor of this host.
    #[error("{0}")]
    Pins(#[from] PinsError),
    /// The file that was given, or the temporary folder.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The download.
    #[error(
        "the release cannot be downloaded: {0}. Where there is no way to it, --archive takes a file and --from-module builds the Go module"
    )]
    Fetch(#[from] FetchError),
    /// The archive.
    #[error("{0}")]
    Archive(#[from] ArchiveError),
    /// The module.
    #[error("{0}")]
    Module(#[from] ModuleError),
    /// It does not run.
    #[error("the version of runsc cannot be had: {0}")]
    Runsc(#[from] ProcessError),
    /// It is another version.
    #[error("runsc --version begins with {found:?}, and it must be {expected:?}")]
    Version {
        /// Its first line.
        found: String,
        /// The label of the pinned version, in the same form.
        expected: String,
    },
    /// The folder.
    #[error("{0}")]
    Place(#[from] PlaceError),
    /// The configuration.
    #[error("runsc is installed and not registered: {0}")]
    Register(#[from] RegisterError),
    /// The engine.
    #[error("runsc is installed and registered: {0}")]
    Engine(#[from] EngineError),
}

/// What is pinned, for one source.
enum Pins {
    Archive(ArchivePins),
    Module(ModulePins),
}

impl Pins {
    fn label(&self) -> String {
        match self {
            Self::Archive(pins) => pins.label(),
            Self::Module(pins) => pins.version().to_owned(),
        }
    }

    fn executables(&self) -> Vec<&str> {
        match self {
            Self::Archive(pins) => pins.executables().iter().map(|one| one.as_str()).collect(),
            Self::Module(_) => vec!["runsc"],
        }
    }
}

/// Installs the pinned `runsc`. What is there already in that version is not fetched again. `lookup` is the environment,
/// read for where Go is and how the network is reached; `say` hears what is done, a line at a time.
///
/// # Errors
/// When a step fails. The error says what stands by then.
pub fn install(options: &Options, lookup: &dyn Lookup, say: &mut dyn FnMut(&str)) -> Result<Installed, Error> {
    let arch = Arch::of_this_host()?;
    let pins = match options.source {
        Source::Release | Source::Archive(_) => Pins::Archive(ArchivePins::built_in()?),
        Source::Module => Pins::Module(ModulePins::built_in()?),
    };
    install_pinned(&pins, arch, options, lookup, say)
}

fn install_pinned(
    pins: &Pins,
    arch: Arch,
    options: &Options,
    lookup: &dyn Lookup,
    say: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    let label = pins.label();
    if options.verify_only {
        let folder = tempfile::tempdir()?;
        prepare(pins, arch, options, folder.path(), lookup, say)?;
        return Ok(Installed { label, placed: None });
    }
    let place = Place::take(&options.into)?;
    let runsc = place.runsc();
    let was_there = is_installed(pins, &runsc, &label);
    if !was_there {
        let from = prepare(pins, arch, options, place.staging(), lookup, say)?;
        place.install(&from, &pins.executables())?;
    }
    let config = options
        .config
        .clone()
        .unwrap_or_else(|| Engine::config_of(&options.socket));
    let registered_now = register(&config, &runsc)?;
    let reload = Engine::at(&options.socket, &config).show(&runsc)?;
    Ok(Installed {
        label,
        placed: Some(Placed {
            runsc,
            config,
            was_there,
            registered_now,
            reload,
        }),
    })
}

/// The executables, checked, in a folder below `staging`.
fn prepare(
    pins: &Pins,
    arch: Arch,
    options: &Options,
    staging: &Path,
    lookup: &dyn Lookup,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, Error> {
    let folder = match pins {
        Pins::Module(pins) => module::build(pins, arch, staging, lookup, say)?,
        Pins::Archive(pins) => {
            let incoming = match &options.source {
                Source::Archive(file) => {
                    say(&format!("reading {}", file.display()));
                    Incoming::of_file(file, staging)?
                }
                _ => {
                    let url = pins.url(arch);
                    say(&format!("downloading {url}"));
                    let mut incoming = Incoming::new(staging)?;
                    Fetcher::of_host()?.fetch(&url, &mut |piece| incoming.push(piece))?;
                    incoming
                }
            };
            let verified = incoming.verified(pins, arch)?;
            say(&format!("the SHA-512 is that of {}; unpacking", pins.label()));
            let folder = staging.join("release");
            verified.unpack(pins.executables(), &folder)?;
            folder
        }
    };
    check_version(&folder.join("runsc"), &pins.label())?;
    if matches!(pins, Pins::Archive(_)) {
        say("trying it out against a throwaway configuration");
        archive::trial(&folder)?;
    }
    Ok(folder)
}

/// Whether all that is wanted is there and calls itself by this label.
fn is_installed(pins: &Pins, runsc: &Path, label: &str) -> bool {
    let folder = runsc.parent().unwrap_or(runsc);
    pins.executables()
        .iter()
        .all(|name| fs_err::symlink_metadata(folder.join(name)).is_ok_and(|file| file.is_file()))
        && check_version(runsc, label).is_ok()
}

fn check_version(runsc: &Path, label: &str) -> Result<(), Error> {
    let answer = Program::new(runsc, ["--version"]).answer()?;
    let answer = String::from_utf8_lossy(&answer);
    let found = answer.lines().next().unwrap_or_default();
    let expected = format!("runsc version {label}");
    if found == expected {
        return Ok(());
    }
    Err(Error::Version {
        found: found.to_owned(),
        expected,
    })
}

#[cfg(test)]
mod tests;
