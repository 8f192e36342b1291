//! What the sandbox's limits did during a call, read from the kernel's own counters.

use std::path::{Path, PathBuf};

use plimsoll_guest_messages::LimitFacts;
use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, Rlimit, getrlimit};

use crate::{sys, tree};

/// File systems that guest code may fill.
pub(crate) const WRITABLE: [&str; 3] = ["/tmp", "/dev/shm", "/work"];
const TMPFS: i64 = 0x0102_1994;

/// Counters at the start of a call, and what was seen since.
#[derive(Clone, Debug)]
pub(crate) struct CallFacts {
    oom_kills: u64,
    pids_refused: u64,
    /// Whether the kernel counts refusals where this process can read it.
    counted: bool,
    /// Refusals that PID 1 met itself.
    refused_here: u64,
    most_tasks: u64,
    /// Those of [`WRITABLE`] that an earlier call has filled.
    full_before: [bool; WRITABLE.len()],
    disk_full: bool,
}

impl CallFacts {
    /// Reads the counters.
    pub(crate) fn begin() -> Self {
        Self {
            oom_kills: oom_kills(),
            pids_refused: pids_refused().unwrap_or(0),
            counted: pids_refused().is_some(),
            refused_here: 0,
            most_tasks: 0,
            full_before: WRITABLE.map(is_full),
            disk_full: false,
        }
    }

    /// Counts the tree. Where the kernel keeps no count of refusals (gVisor), PID 1 finds out whether one more process would
    /// be refused.
    pub(crate) fn count_tasks(&mut self) {
        self.most_tasks = self.most_tasks.max(tree::tasks());
        if !self.counted && sys::is_at_process_limit() {
            self.refused_here += 1;
        }
    }

    /// The call's code has ended or is about to be killed; what it left is still there. What was full before it began counts
    /// only where it failed: then that may be why.
    pub(crate) fn code_ended(&mut self, failed: bool) {
        self.count_tasks();
        let mut mounts = WRITABLE.into_iter().zip(self.full_before);
        self.disk_full |= mounts.any(|(path, before)| (failed || !before) && is_full(path));
    }

    /// Adds what a part of this call saw.
    pub(crate) fn absorb(&mut self, part: &LimitFacts) {
        self.most_tasks = self.most_tasks.max(part.most_tasks);
        self.disk_full |= part.disk_full;
        if !self.counted {
            self.refused_here += part.pids_refused;
        }
    }

    /// The facts so far.
    pub(crate) fn read(&self) -> LimitFacts {
        LimitFacts {
            oom_kills: oom_kills().saturating_sub(self.oom_kills),
            pids_refused: pids_refused().unwrap_or(0).saturating_sub(self.pids_refused) + self.refused_here,
            most_tasks: self.most_tasks,
            disk_full: self.disk_full,
            peak_memory: peak_memory(),
        }
    }
}

/// The limits on what this process may use. Guest code may change them (gVisor, other profiles).
pub(crate) fn own_limits() -> Vec<Rlimit> {
    let all = [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::Stack,
        Resource::Core,
        Resource::Rss,
        Resource::Nproc,
        Resource::Nofile,
        Resource::Memlock,
        Resource::As,
        Resource::Locks,
        Resource::Sigpending,
        Resource::Msgqueue,
        Resource::Nice,
        Resource::Rtprio,
        Resource::Rttime,
    ];
    all.into_iter().map(getrlimit).collect()
}

fn oom_kills() -> u64 {
    field("memory", "memory.oom_control", "oom_kill")
        .or_else(|| field("", "memory.events", "oom_kill"))
        .unwrap_or(0)
}

/// `None` where the kernel keeps no such count.
fn pids_refused() -> Option<u64> {
    field("pids", "pids.events", "max").or_else(|| field("", "pids.events", "max"))
}

fn peak_memory() -> u64 {
    let number = |controller, file| text(controller, file)?.parse().ok();
    number("memory", "memory.max_usage_in_bytes")
        .or_else(|| number("", "memory.peak"))
        .unwrap_or(0)
}

fn field(controller: &str, file: &str, name: &str) -> Option<u64> {
    let text = text(controller, file)?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// A file of PID 1's own control group, without its last newline. `controller` is empty for the unified hierarchy.
///
/// A container sees its own group at the top of the mount, or (with the host's view) under the path that
/// `/proc/self/cgroup` names; the latter is tried first because at the top there may be the whole machine's.
pub(crate) fn text(controller: &str, file: &str) -> Option<String> {
    let mount = Path::new("/sys/fs/cgroup").join(controller);
    let own = own_path(controller).map(|path| mount.join(path));
    let candidates = own.into_iter().chain([mount]);
    candidates.map(|folder: PathBuf| folder.join(file)).find_map(|path| {
        let text = fs_err::read_to_string(path).ok()?;
        Some(text.trim_end_matches('\n').to_owned())
    })
}

fn own_path(controller: &str) -> Option<String> {
    let groups = fs_err::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?.strip_prefix('/')?;
        controllers
            .split(',')
            .any(|one| one == controller)
            .then(|| path.to_owned())
    })
}

fn is_full(path: &str) -> bool {
    let own_mount = statfs(path).is_ok_and(|fs| fs.f_type == TMPFS);
    own_mount
        && statvfs(path).is_ok_and(|fs| (fs.f_blocks > 0 && fs.f_bavail == 0) || (fs.f_files > 0 && fs.f_favail == 0))
}
