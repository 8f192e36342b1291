//! What the sandbox's limits did during a call, read from the kernel's own counters.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_guest_messages::LimitFacts;
use rustix::fs::statfs;
use rustix::process::{Resource, Rlimit, getrlimit};

use crate::{sys, tree};

/// File systems that guest code may fill.
pub(crate) const WRITABLE: [&str; 3] = ["/tmp", "/dev/shm", "/work"];
const TMPFS: i64 = 0x0102_1994;

/// The kernel's counters, found once: PID 1 stays in its control group, and looking for what is not there takes longer than a
/// cell (gVisor has none of them).
static COUNTERS: LazyLock<Counters> = LazyLock::new(|| Counters {
    oom_kills: Counter::first(&[
        ("memory", "memory.oom_control", "oom_kill"),
        ("", "memory.events", "oom_kill"),
    ]),
    pids_refused: Counter::first(&[("pids", "pids.events", "max"), ("", "pids.events", "max")]),
    peak_memory: Counter::first(&[("memory", "memory.max_usage_in_bytes", ""), ("", "memory.peak", "")]),
});

/// Finds the kernel's counters. Before the first call, so that none waits for it.
pub(crate) fn find_counters() {
    LazyLock::force(&COUNTERS);
}

/// Most tasks beside which one more process was seen to be possible.
static ROOM_BESIDE: AtomicU64 = AtomicU64::new(0);

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
            oom_kills: COUNTERS.oom_kills(),
            pids_refused: COUNTERS.pids_refused().unwrap_or(0),
            counted: COUNTERS.pids_refused.is_some(),
            refused_here: 0,
            most_tasks: 0,
            full_before: WRITABLE.map(is_full),
            disk_full: false,
        }
    }

    /// Counts the tree of a call that runs.
    pub(crate) fn count_tasks(&mut self) {
        self.count(true);
    }

    /// Where the kernel keeps no count of refusals (gVisor), PID 1 finds out whether one more process would be refused. A call
    /// that ended well beside no more tasks than left room before is not asked about: that takes a process.
    fn count(&mut self, suspect: bool) {
        let tasks = tree::tasks();
        self.most_tasks = self.most_tasks.max(tasks);
        if self.counted || (!suspect && tasks <= ROOM_BESIDE.load(Ordering::Relaxed)) {
            return;
        }
        if sys::is_at_process_limit() {
            self.refused_here += 1;
        } else {
            ROOM_BESIDE.fetch_max(tasks, Ordering::Relaxed);
        }
    }

    /// The call's code has ended or is about to be killed; what it left is still there. What was full before it began counts
    /// only where it failed: then that may be why.
    pub(crate) fn code_ended(&mut self, failed: bool) {
        self.count(failed);
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
            oom_kills: COUNTERS.oom_kills().saturating_sub(self.oom_kills),
            pids_refused: COUNTERS.pids_refused().unwrap_or(0).saturating_sub(self.pids_refused) + self.refused_here,
            most_tasks: self.most_tasks,
            disk_full: self.disk_full,
            peak_memory: COUNTERS.peak_memory(),
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

/// Those of the kernel's counters that this process can read.
#[derive(Debug)]
struct Counters {
    oom_kills: Option<Counter>,
    pids_refused: Option<Counter>,
    peak_memory: Option<Counter>,
}

impl Counters {
    fn oom_kills(&self) -> u64 {
        self.oom_kills.as_ref().and_then(Counter::read).unwrap_or(0)
    }

    /// `None` where the kernel keeps no such count.
    fn pids_refused(&self) -> Option<u64> {
        self.pids_refused.as_ref().and_then(Counter::read)
    }

    fn peak_memory(&self) -> u64 {
        self.peak_memory.as_ref().and_then(Counter::read).unwrap_or(0)
    }
}

/// A number in a file of PID 1's own control group.
#[derive(Debug)]
struct Counter {
    file: File,
    /// What its line begins with; empty when the number is all there is.
    name: &'static str,
}

impl Counter {
    /// The first that is there, of controller, file and name.
    fn first(places: &[(&str, &str, &'static str)]) -> Option<Self> {
        places.iter().find_map(|(controller, file, name)| {
            folders(controller).find_map(|folder| {
                let file = fs_err::File::open(folder.join(file)).ok()?.into_parts().0;
                let counter = Self { file, name };
                counter.read().map(|_| counter)
            })
        })
    }

    /// What it says now. These files are far shorter than what is read of them.
    fn read(&self) -> Option<u64> {
        let mut bytes = [0; 1 << 10];
        let read = self.file.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..read]).ok()?;
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(self.name)?;
            rest.trim_start_matches(' ').parse().ok()
        })
    }
}

/// A file of PID 1's own control group, without its last newline. `controller` is empty for the unified hierarchy.
///
/// A container sees its own group at the top of the mount, or (with the host's view) under the path that
/// `/proc/self/cgroup` names; the latter is tried first because at the top there may be the whole machine's.
pub(crate) fn text(controller: &str, file: &str) -> Option<String> {
    folders(controller).find_map(|folder| {
        let text = fs_err::read_to_string(folder.join(file)).ok()?;
        Some(text.trim_end_matches('\n').to_owned())
    })
}

/// Where files of PID 1's own control group may be, the likelier place first.
fn folders(controller: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let mount = Path::new("/sys/fs/cgroup").join(controller);
    let own = own_path(controller).map(|path| mount.join(path));
    own.into_iter().chain([mount])
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
    statfs(path).is_ok_and(|fs| {
        fs.f_type == TMPFS && ((fs.f_blocks > 0 && fs.f_bavail == 0) || (fs.f_files > 0 && fs.f_ffree == 0))
    })
}
