//! What a container may do, written down once: the create request, and its read-back.

mod read_back;
mod request;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use read_back::{ReadBackError, read_back};

use crate::runtime::Runtime;
use crate::seccomp::Confinement;
use crate::storage::Storage;

/// Where our program lives in every image; it is PID 1 of every container.
pub const GUEST_BINARY: &str = "/usr/local/bin/plimsoll-guest";

/// The working folder of projects and sessions.
pub const WORK: &str = "/work";

/// Unix seconds after which a container is nobody's.
pub const EXPIRES_LABEL: &str = "io.plimsoll.expires";

/// The private folder of the daemon that made the container.
pub const OWNER_LABEL: &str = "io.plimsoll.owner";

/// `1` on the containers of sessions.
pub const SESSION_LABEL: &str = "io.plimsoll.session";

/// Inodes of every tmpfs under runc; runsc ignores the option.
pub const TMPFS_INODES: u32 = 65_536;

/// Open files of every process.
pub const OPEN_FILES: i64 = 4096;

/// A container's name: a prefix that says what it is for, and 64 random bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerName(Arc<str>);

impl ContainerName {
    /// A fresh name.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn fresh(prefix: &str) -> Result<Self, getrandom::Error> {
        let bits = getrandom::u64()?;
        Ok(Self(format!("{prefix}-{bits:016x}").into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ContainerName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// How long a container may live and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// End of its declared life in Unix seconds, rounded up.
    pub expires: u64,
    /// The daemon's private folder.
    pub owner: PathBuf,
    /// Whether it is a session's.
    pub session: bool,
}

/// How many processes a container may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimit {
    /// What the engine's cgroup is told.
    pub cgroup: u32,
    /// What the guest's user may have inside, under runsc only; there the cgroup also holds the runtime's own tasks.
    pub inside: Option<u32>,
}

impl ProcessLimit {
    /// Tasks of runsc itself while the guest sleeps; measured 28, with room for its garbage collector and I/O threads.
    pub const RUNSC_OWN_TASKS: u32 = 256;

    /// Host tasks runsc may hold for one guest process. One is measured at rest; short-lived processes hold more.
    pub const RUNSC_TASKS_PER_PROCESS: u32 = 4;

    /// The limit for `processes` guest processes under a runtime.
    pub const fn new(processes: u32, gvisor: bool) -> Self {
        if gvisor {
            Self {
                cgroup: Self::RUNSC_OWN_TASKS.saturating_add(processes.saturating_mul(Self::RUNSC_TASKS_PER_PROCESS)),
                inside: Some(processes),
            }
        } else {
            Self {
                cgroup: processes,
                inside: None,
            }
        }
    }
}

/// Everything that makes one container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Content ID of the image, never a tag.
    pub image_id: String,
    /// Platform of the image, where one was verified.
    pub platform: Option<String>,
    /// Arguments of the guest binary.
    pub arguments: Vec<String>,
    /// Whether `/work` is mounted and the working folder: projects, modules and sessions.
    pub work: bool,
    /// Whether the engine removes it at its end: runs, not sessions.
    pub auto_remove: bool,
    /// The runtime.
    pub runtime: Runtime,
    /// Memory in MiB, swap included.
    pub memory_mib: u32,
    /// Processes.
    pub processes: ProcessLimit,
    /// Share of processor time, in processors.
    pub cpus: f64,
    /// The processors it runs on, as the engine takes them.
    pub cpuset: String,
    /// Sizes of what is writable.
    pub storage: Storage,
    /// User and group of every guest process.
    pub guest_uid: u32,
    /// The system calls it may make; not used under runsc.
    pub confinement: Confinement,
    /// Label values.
    pub ownership: Ownership,
    /// The broker's socket on the host: the only bind mount there is.
    pub broker_socket: PathBuf,
}

/// The specification cannot be put into a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The engine separates the parts of a bind mount with colons and takes text only.
    #[error("{}: a path with a colon, a comma or bytes that are not UTF-8 cannot be mounted; set TMPDIR to another folder", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
}

impl ContainerSpec {
    /// The options of a tmpfs of this size.
    fn tmpfs(&self, mib: u32) -> String {
        let inodes = if self.runtime.is_gvisor() {
            String::new()
        } else {
            format!(",nr_inodes={TMPFS_INODES}")
        };
        format!("rw,noexec,nosuid,size={mib}m{inodes}")
    }

    fn user(&self) -> String {
        format!("{0}:{0}", self.guest_uid)
    }
}

fn mountable(path: &Path) -> Result<&str, SpecError> {
    let text = path.to_str().filter(|text| !text.contains([':', ',']));
    text.ok_or_else(|| SpecError::Path { path: path.to_owned() })
}

#[cfg(test)]
mod tests;
