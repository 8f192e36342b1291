//! Packages, through the package managers of the host.
//!
//! Their configuration is the host's (mirrors, proxies, certificates, credentials of private sources); the folders they
//! work in are ours, so that nothing of the host changes. What they bring is named by its hash from there on.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::error::ImagesError;

pub(crate) mod debian;
pub(crate) mod npm;
pub(crate) mod wheels;

/// How much of a failed client's last words is shown, in bytes.
const SAID: usize = 2_000;

/// A package manager of the host.
pub(crate) struct Client {
    pub(crate) program: &'static str,
    pub(crate) doing: &'static str,
    pub(crate) fix: &'static str,
}

impl Client {
    /// Runs it in `folder` and returns what it printed.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        doing: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Vec<u8>, ImagesError> {
        let Some(output) = output(self.program, folder, args)? else {
            return Err(ImagesError::NoClient {
                client: self.program,
                doing: self.doing,
                fix: self.fix,
            });
        };
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(ImagesError::Client {
            client: self.program,
            doing: doing.to_owned(),
            said: said(&output),
        })
    }
}

/// Runs a program; `None` when there is none of that name.
pub(crate) fn output<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    folder: &Path,
    args: impl IntoIterator<Item = A>,
) -> std::io::Result<Option<Output>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the room that owns the processes of package managers"
    )]
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        // Messages are quoted in errors, and the values of lists are compared.
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONHASHSEED", "0");
    match command.output() {
        Ok(output) => Ok(Some(output)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The end of what a program said: its errors, or its output where it has none.
pub(crate) fn said(output: &Output) -> String {
    let words = if output.stderr.trim_ascii().is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    let end = words[words.len().saturating_sub(SAID)..].trim_ascii();
    if end.is_empty() {
        return format!("it ended with {} and no word", output.status);
    }
    String::from_utf8_lossy(end).into_owned()
}

/// That the store holds every one of these; a client that brought something else is named by the first that is missing.
fn all_there<'a>(
    store: &crate::store::Store,
    wanted: impl IntoIterator<Item = &'a crate::lock::Locked>,
) -> Result<(), ImagesError> {
    for package in wanted {
        if !store.has_package(package.sha256) {
            return Err(ImagesError::package(
                package.id(),
                format!(
                    "what was downloaded does not have the hash {} of the lock file: the source replaced it, or somebody \
                     on the way did",
                    package.sha256
                ),
            ));
        }
    }
    Ok(())
}
