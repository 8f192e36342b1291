//! The tree of guest code: everything in the PID namespace but PID 1.

use std::time::{Duration, Instant};

use crate::hub::{Hub, Stop};
use crate::sys;

/// Longest time in which killed processes must be gone.
pub(crate) const KILL_BUDGET: Duration = Duration::from_secs(2);

/// Kills the whole tree and returns when it is seen to be gone: no child left to wait for, and `/proc` shows nobody else.
/// A process whose first thread is gone while others run still counts, since it can neither be waited for nor leaves `/proc`.
pub(crate) fn clear(hub: &mut Hub) -> Result<(), Stop> {
    let until = Instant::now() + KILL_BUDGET;
    loop {
        sys::kill_everything_else();
        if !hub.reap() && others()?.is_empty() {
            // Their process numbers may be given again.
            hub.forget_ends();
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Stop::Fault("processes of the call do not die".into()));
        }
        hub.wait(&mut [], Some(until.min(Instant::now() + Duration::from_millis(5))))?;
    }
}

/// Tasks beside PID 1, threads counted one by one. A process that ends meanwhile may be missed.
pub(crate) fn tasks() -> u64 {
    let Ok(others) = others() else { return 0 };
    let threads = |pid: &String| match fs_err::read_dir(format!("/proc/{pid}/task")) {
        Ok(tasks) => tasks.count() as u64,
        Err(_) => 0,
    };
    others.iter().map(threads).sum()
}

fn others() -> Result<Vec<String>, Stop> {
    let unreadable = |error| Stop::fault("processes cannot be listed", error);
    let mut others = Vec::new();
    for entry in fs_err::read_dir("/proc").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        if name != "1" && name.bytes().all(|byte| byte.is_ascii_digit()) {
            others.push(name);
        }
    }
    Ok(others)
}
