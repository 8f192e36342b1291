//! The tree of guest code: everything in the PID namespace but PID 1 and the interpreters it keeps.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::hub::{Hub, Stop};
use crate::sys;

/// Longest time in which killed processes must be gone.
pub(crate) const KILL_BUDGET: Duration = Duration::from_secs(2);

/// The part of [`KILL_BUDGET`] in which kept processes are spared; then they go with the rest, at one blow that nothing
/// outruns.
const SPARING: Duration = Duration::from_secs(1);

/// Sends SIGKILL to everything but what is kept.
///
/// With something to spare each process is killed by its number. The number cannot have become a kept process's: PID 1 alone
/// makes those, and waits for them.
pub(crate) fn kill(hub: &Hub) -> Result<(), Stop> {
    if hub.kept().is_empty() {
        sys::kill_everything_else();
        return Ok(());
    }
    for pid in strangers(hub)? {
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(Stop::fault("a process cannot be killed", error)),
        }
    }
    Ok(())
}

/// Everything but what is kept, dead or alive.
pub(crate) fn strangers(hub: &Hub) -> Result<Vec<Pid>, Stop> {
    let mut others = others()?;
    others.retain(|pid| !hub.kept().contains(pid));
    Ok(others)
}

/// Kills the whole tree but what is kept, and returns when it is seen to be gone.
///
/// With nothing kept that is: no child left to wait for, and `/proc` shows nobody else. A process whose first thread is gone
/// while others run still counts, since it can neither be waited for nor leaves `/proc`. With something kept a process also
/// counts as gone when each of its threads is dead, for it may be the child of a kept one, which alone can wait for it.
pub(crate) fn clear(hub: &mut Hub) -> Result<(), Stop> {
    let began = Instant::now();
    // What is seen gone after something had to die is looked at once more: a fork may have been under way (gVisor).
    let mut once_more = !strangers(hub)?.is_empty();
    loop {
        kill(hub)?;
        let waiting = hub.reap();
        let gone = if hub.kept().is_empty() {
            !waiting && others()?.is_empty()
        } else {
            strangers(hub)?.into_iter().all(is_dead)
        };
        if gone && std::mem::take(&mut once_more) {
            continue;
        }
        if gone {
            // Their process numbers may be given again.
            hub.forget_ends();
            return Ok(());
        }
        let spent = began.elapsed();
        if spent >= KILL_BUDGET {
            return Err(Stop::Fault("processes of the call do not die".into()));
        }
        if spent >= SPARING {
            for pid in hub.kept().to_vec() {
                hub.let_go(pid);
            }
        }
        hub.wait(&mut [], Some(Instant::now() + Duration::from_millis(5)))?;
    }
}

/// Whether every thread of a process is dead, or the process gone. What cannot be read counts as alive.
pub(crate) fn is_dead(pid: Pid) -> bool {
    all_threads(pid, &['Z', 'X'])
}

/// Whether every thread of a process is stopped or dead, or the process gone. What cannot be read counts as running.
pub(crate) fn stands_still(pid: Pid) -> bool {
    all_threads(pid, &['T', 't', 'Z', 'X'])
}

fn all_threads(pid: Pid, states: &[char]) -> bool {
    let tasks = match fs_err::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
        Ok(tasks) => tasks,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    tasks.into_iter().all(|task| {
        let stat = task.and_then(|task| fs_err::read_to_string(task.path().join("stat")));
        match stat {
            // The state follows the name, which may hold anything.
            Ok(stat) => stat
                .rsplit_once(')')
                .is_some_and(|(_, rest)| rest.trim_start().starts_with(states)),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    })
}

/// Tasks beside PID 1, threads counted one by one. A process that ends meanwhile may be missed.
pub(crate) fn tasks() -> u64 {
    let Ok(others) = others() else { return 0 };
    let threads = |pid: &Pid| match fs_err::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
        Ok(tasks) => tasks.count() as u64,
        Err(_) => 0,
    };
    others.iter().map(threads).sum()
}

fn others() -> Result<Vec<Pid>, Stop> {
    let unreadable = |error| Stop::fault("processes cannot be listed", error);
    let mut others = Vec::new();
    for entry in fs_err::read_dir("/proc").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        others.extend(pid.filter(|pid| !pid.is_init()));
    }
    Ok(others)
}
