//! The sandbox's process as the host sees it: whether it still runs, and the control groups that hold it.
//!
//! The engine states a PID. It is believed only if the control groups of that process name the container, because the
//! daemon may live in another PID namespace, and because a PID may have gone to a stranger by the time it is read.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;

use crate::oom::OomNotice;
use crate::sys::watched;

/// Where the kernel shows control groups on a usual host.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// A handle on the process that no later process can inherit.
#[derive(Debug)]
pub(crate) struct SandboxProcess {
    handle: AsyncFd<OwnedFd>,
    groups: ControlGroups,
    /// `None` where the kernel gives none.
    oom: Option<OomNotice>,
}

/// The control groups of one container, found through its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlGroups {
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuset: Option<PathBuf>,
    unified: bool,
}

/// Why a PID is not taken for the container's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOurs {
    /// No such process here, or no handle on it.
    #[error("no handle on process {pid}: {source}")]
    NoHandle {
        /// As the engine states it.
        pid: i64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Its control groups do not name the container.
    #[error(
        "the control groups of process {pid} do not name the container: the daemon sees other process numbers than the engine"
    )]
    Foreign {
        /// As the engine states it.
        pid: i64,
    },
}

impl SandboxProcess {
    /// The process the engine states for the container of this ID.
    ///
    /// # Errors
    /// [`NotOurs`].
    pub(crate) fn of(pid: i64, container_id: &str) -> Result<Self, NotOurs> {
        let no_handle = |source: io::Error| NotOurs::NoHandle { pid, source };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| no_handle(io::ErrorKind::NotFound.into()))?;
        // The handle comes first: what is read afterwards belongs to it, or the process has ended in between.
        let handle = pidfd_open(number, PidfdFlags::NONBLOCK).map_err(|error| no_handle(error.into()))?;
        let listing = fs_err::read_to_string(format!("/proc/{pid}/cgroup")).map_err(no_handle)?;
        let groups = ControlGroups::read(&listing, container_id, Path::new(CGROUP_ROOT));
        let groups = groups.ok_or(NotOurs::Foreign { pid })?;
        let handle = watched(handle).map_err(no_handle)?;
        // Without the notice there is still the count of the group, for as long as the group is there.
        let oom = groups.oom_notice().ok();
        Ok(Self { handle, groups, oom })
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// The handle cannot be waited for.
    pub(crate) async fn gone(&self) -> io::Result<()> {
        self.handle.readable().await.map(|_| ())
    }

    /// How many processes of the container the out-of-memory killer took; at most 1 once its control group is gone, and 0 where
    /// the kernel does not tell.
    pub(crate) async fn oom_kills(&self) -> u64 {
        match (self.groups.oom_kills(), &self.oom) {
            (Some(count), _) => count,
            (None, Some(notice)) => u64::from(notice.met().await),
            (None, None) => 0,
        }
    }

    /// Its control groups.
    pub(crate) const fn groups(&self) -> &ControlGroups {
        &self.groups
    }
}

impl ControlGroups {
    /// Reads `/proc/<pid>/cgroup`. `None` where a group that is needed does not name the container.
    fn read(listing: &str, container_id: &str, root: &Path) -> Option<Self> {
        let mut groups = Self::default();
        let mut unified = None;
        for line in listing.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let named = path.contains(container_id);
            let within = |folder: &str| root.join(folder).join(path.trim_start_matches('/'));
            if controllers.is_empty() {
                unified = named.then(|| root.join(path.trim_start_matches('/')));
                continue;
            }
            for controller in controllers.split(',') {
                let place = match controller {
                    "memory" => &mut groups.memory,
                    "pids" => &mut groups.pids,
                    "cpu" => &mut groups.cpu,
                    "cpuset" => &mut groups.cpuset,
                    _ => continue,
                };
                if !named {
                    return None;
                }
                // Hosts mount joint controllers under either name.
                let joint = root.join(controllers);
                *place = Some(if joint.is_dir() {
                    within(controllers)
                } else {
                    within(controller)
                });
            }
        }
        if groups.pids.is_some() {
            return Some(groups);
        }
        let unified = unified?;
        Some(Self {
            memory: Some(unified.clone()),
            pids: Some(unified.clone()),
            cpu: Some(unified.clone()),
            cpuset: Some(unified),
            unified: true,
        })
    }

    /// The most tasks the group may hold, as the kernel writes it.
    pub(crate) fn pids_max(&self) -> io::Result<String> {
        value(self.pids.as_deref(), "pids.max")
    }

    /// The memory limit in bytes, as the kernel writes it.
    pub(crate) fn memory_max(&self) -> io::Result<String> {
        let name = if self.unified {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        value(self.memory.as_deref(), name)
    }

    /// Quota and period with one space between.
    pub(crate) fn cpu_max(&self) -> io::Result<String> {
        if self.unified {
            return value(self.cpu.as_deref(), "cpu.max");
        }
        let quota = value(self.cpu.as_deref(), "cpu.cfs_quota_us")?;
        let period = value(self.cpu.as_deref(), "cpu.cfs_period_us")?;
        Ok(format!("{quota} {period}"))
    }

    /// The processors the group may run on, as the kernel lists them.
    pub(crate) fn cpuset(&self) -> io::Result<String> {
        value(self.cpuset.as_deref(), "cpuset.cpus")
    }

    /// A count of the times that they are out of memory, which outlives them.
    fn oom_notice(&self) -> io::Result<OomNotice> {
        match &self.memory {
            Some(group) if !self.unified => OomNotice::on(group),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// How many processes the out-of-memory killer took; `None` where the kernel does not tell, or the group is gone.
    fn oom_kills(&self) -> Option<u64> {
        let name = if self.unified {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = value(self.memory.as_deref(), name).ok()?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        count.trim().parse().ok()
    }

    /// The most memory the group held, in bytes; 0 where the kernel does not tell.
    pub(crate) fn peak_memory(&self) -> u64 {
        let name = if self.unified {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        let text = value(self.memory.as_deref(), name).unwrap_or_default();
        text.parse().unwrap_or(0)
    }
}

fn value(group: Option<&Path>, name: &str) -> io::Result<String> {
    let group =
        group.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no control group with {name}")))?;
    Ok(fs_err::read_to_string(group.join(name))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(listing: &str) -> Option<ControlGroups> {
        ControlGroups::read(listing, ID, Path::new("/nowhere"))
    }

    #[test]
    fn the_unified_hierarchy_is_one_folder() {
        let groups = read(&format!("0::/system.slice/docker-{ID}.scope\n")).unwrap();
        let folder = PathBuf::from(format!("/nowhere/system.slice/docker-{ID}.scope"));
        assert!(groups.unified);
        assert_eq!((groups.memory, groups.pids), (Some(folder.clone()), Some(folder)));
    }

    #[test]
    fn the_older_hierarchies_are_a_folder_each() {
        let groups = read(&format!(
            "4:pids:/docker/{ID}\n3:cpuset,cpu:/docker/{ID}\n1:name=systemd:/x\n0::/\n"
        ))
        .unwrap();
        assert!(!groups.unified);
        assert_eq!(groups.pids, Some(PathBuf::from(format!("/nowhere/pids/docker/{ID}"))));
        assert_eq!(groups.cpu, Some(PathBuf::from(format!("/nowhere/cpu/docker/{ID}"))));
        assert_eq!(groups.memory, None);
    }

    #[test]
    fn a_group_without_the_container_is_not_the_containers() {
        for listing in [
            "",
            "0::/\n",
            "4:pids:/docker/abc\n",
            "0::/system.slice/docker-0123.scope\n",
        ] {
            assert_eq!(read(listing), None, "{listing:?}");
        }
        assert_eq!(read(&format!("4:pids:/docker/{ID}\n5:memory:/elsewhere\n")), None);
    }

    #[tokio::test]
    async fn a_stranger_is_not_taken_for_the_container() {
        let own = i64::from(std::process::id());
        assert!(matches!(SandboxProcess::of(own, ID), Err(NotOurs::Foreign { .. })));
        assert!(matches!(SandboxProcess::of(0, ID), Err(NotOurs::NoHandle { .. })));
        assert!(matches!(SandboxProcess::of(-5, ID), Err(NotOurs::NoHandle { .. })));
    }
}
