//! Whether a memory control group met its limit, told also when the group is gone before anybody has read its count.
//!
//! The engine removes a container's groups as soon as its process has ended. Who reads the count only then is late on a
//! busy host, so the kernel is asked at the beginning to count into a descriptor of ours, which stays.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tokio::io::unix::AsyncFd;
use tokio::sync::OnceCell;

use crate::sys::watched;

/// How long the kernel may take to tell of the removal of a group that was seen gone. It tells from a work queue of its own, and
/// only when no processor can look at the group any more.
const REMOVAL_TOLD: Duration = Duration::from_secs(1);

/// A count of the kernel's: one for each time that the group was out of memory, and one for its removal.
///
/// Control groups of version 1 only, and only for root. Version 2 tells no more than that a file has changed, which then
/// has to be read before the group is gone: nothing is gained over reading it at the end.
#[derive(Debug)]
pub(crate) struct OomNotice {
    told: AsyncFd<OwnedFd>,
    met: OnceCell<bool>,
}

impl OomNotice {
    /// Begins to count what happens to the memory group of version 1 in this folder.
    ///
    /// # Errors
    /// The group is gone, is of version 2, or is not ours to watch.
    pub(crate) fn on(group: &Path) -> io::Result<Self> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = fs_err::File::open(group.join("memory.oom_control"))?;
        let request = format!("{} {}", counter.as_raw_fd(), control.as_raw_fd());
        let registration = fs_err::OpenOptions::new()
            .write(true)
            .open(group.join("cgroup.event_control"))?;
        rustix::io::write(&registration, request.as_bytes())?;
        Ok(Self {
            told: watched(counter)?,
            met: OnceCell::new(),
        })
    }

    /// Whether the group was ever out of memory. To be asked once the group is gone: before that its removal is not told yet,
    /// and a first time could be taken for it.
    pub(crate) async fn met(&self) -> bool {
        *self.met.get_or_init(|| self.judge()).await
    }

    async fn judge(&self) -> bool {
        // An end for want of memory comes before the end of the process, and that before the removal: a count of nothing
        // says that there was none, and of two that there was. One is either.
        let told = self.take();
        if told != 1 {
            return told > 1;
        }
        tokio::time::timeout(REMOVAL_TOLD, self.told_again()).await.is_ok()
    }

    /// Ready once something more is counted.
    async fn told_again(&self) {
        while self.take() == 0 {
            // An error is that of a runtime which ends, and with it the wait.
            let Ok(mut ready) = self.told.readable().await else {
                return std::future::pending().await;
            };
            ready.clear_ready();
        }
    }

    /// What was counted since the last time.
    fn take(&self) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.told, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}
