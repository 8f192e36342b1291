//! What many runs leave behind on a host: nothing, counted on an engine that nobody else uses.
//!
//! The engine is a second one, with its own folders, control groups and socket, so that every process, mount, group and byte
//! that is counted is the daemon's or its engine's, whatever else the machine does. Needs root, `dockerd`, the docker command,
//! and the image `plimsoll/sandbox` in the usual engine.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::containers::{POOL, docker};
use crate::daemon::{Daemon, Program, TOKEN, eventually};
use crate::http::{Connection, run_body};
use crate::{CODE, Row};

const IMAGE: &str = "plimsoll/sandbox:latest";

/// Where an engine finds its helpers; not every user's path has them all.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Callers at once.
const AT_ONCE: u64 = 4;

/// Runs before the first count: what is made once and kept is made by them, the engine's databases and connections included.
const WARM_UP: u64 = 60;

/// How long a count must not change before it is taken for the state at rest, and how long that is waited for.
const QUIET: Duration = Duration::from_secs(2);
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// Bytes of disk that may be more afterwards: the engine keeps databases (containerd's, the networks') that grow by pages as
/// they are written and are never shrunk (48 KiB after 300 runs measured). The smallest file or folder that stayed after each
/// run would take 4 KiB a run, eight times what is allowed for each.
const DISK_TOLERANCE: u64 = 512 << 10;
const DISK_TOLERANCE_PER_RUN: u64 = 512;

pub(super) async fn leftovers(program: &Program, runs: u64) -> anyhow::Result<Row> {
    let engine = OwnEngine::start().await?;
    let daemon = engine.daemon(program)?;
    repeat(&daemon, WARM_UP).await?;
    let before = engine.quiet(&daemon).await?;
    repeat(&daemon, runs).await?;
    let after = engine.quiet(&daemon).await?;
    let holds = after.within(&before, DISK_TOLERANCE + DISK_TOLERANCE_PER_RUN * runs);
    daemon.stop()?;
    let stopped = engine.at_rest().await?;
    Ok(Row {
        name: "leftovers",
        what: "processes, descriptors, containers, control groups, mounts, folders and bytes of disk after many runs, of the \
               daemon and an engine of its own",
        figure: format!("{runs} runs: before {before:?}, after {after:?}, once the daemon has stopped {stopped:?}"),
        bar: "each back to the start, disk within 512 KiB and 512 bytes a run; no container, group, mount or folder once the daemon has stopped",
        holds: holds && stopped == (0, 0, 0, 0),
        numbers: json!({ "runs": runs, "before": before.to_json(), "after": after.to_json(),
            "stopped": { "containers": stopped.0, "control_groups": stopped.1, "mounts": stopped.2, "folders": stopped.3 } }),
    })
}

async fn repeat(daemon: &Daemon, runs: u64) -> anyhow::Result<()> {
    let mut workers = Vec::new();
    for worker in 0..AT_ONCE {
        let mut connection = Connection::open(daemon.address(), TOKEN).await?;
        let body = run_body(CODE, 0);
        let share = (runs + worker) / AT_ONCE;
        workers.push(tokio::spawn(async move {
            for _ in 0..share {
                connection.run(body.clone()).await?.printed_42()?;
            }
            anyhow::Ok(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

/// What a host holds for one daemon and its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Of the daemon, of the engine, and of containers; not those that have ended and wait to be collected.
    processes: usize,
    /// The daemon's.
    descriptors: usize,
    containers: usize,
    /// Folders of control groups below the engine's parent.
    groups: usize,
    /// Below the engine's folders.
    mounts: usize,
    /// Entries of the daemon's folder for temporary files.
    folders: usize,
    /// Bytes below the engine's folders and the daemon's for temporary files.
    disk: u64,
}

impl Counts {
    fn within(&self, before: &Self, more_disk: u64) -> bool {
        self.processes <= before.processes
            && self.descriptors <= before.descriptors
            && self.containers <= before.containers
            && self.groups <= before.groups
            && self.mounts <= before.mounts
            && self.folders <= before.folders
            && self.disk <= before.disk + more_disk
    }

    /// Whether nothing but bytes has changed.
    fn same(&self, other: &Self) -> bool {
        Self { disk: 0, ..*self } == Self { disk: 0, ..*other }
    }

    fn to_json(self) -> Value {
        json!({ "processes": self.processes, "descriptors": self.descriptors, "containers": self.containers,
            "control_groups": self.groups, "mounts": self.mounts, "folders": self.folders, "disk_bytes": self.disk })
    }
}

/// An engine for this row alone; it ends with the value.
struct OwnEngine {
    folder: TempDir,
    process: Child,
}

impl OwnEngine {
    #[expect(clippy::disallowed_methods, reason = "the engine is what is looked at")]
    async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("plimsoll-leftovers-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs_err::create_dir(at("tmp"))?;
        fs_err::write(at("daemon.json"), "{}")?;
        let process = Command::new("dockerd")
            .env("PATH", PATH)
            .arg("--host")
            .arg(format!("unix://{}", at("engine.sock").display()))
            .arg("--pidfile")
            .arg(at("pid"))
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--config-file")
            .arg(at("daemon.json"))
            .arg("--cgroup-parent")
            .arg(format!("/{}", parent(folder.path())))
            .args(["--bridge=none", "--iptables=false"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting dockerd, which takes root")?;
        let engine = Self { folder, process };
        let socket = engine.at("engine.sock");
        let up = eventually(Duration::from_secs(30), async || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok() && engine.docker(&["version"]).is_ok()
        });
        anyhow::ensure!(up.await, "the engine of this row does not answer");
        let image = engine.at("image.tar");
        let image = image.to_str().context("the folder is text")?;
        docker(&["save", "--output", image, IMAGE])?;
        engine.docker(&["load", "--input", image])?;
        fs_err::remove_file(image)?;
        Ok(engine)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.at("engine.sock").display())
    }

    fn docker(&self, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let host = self.host();
        docker(&[&["--host", &host], arguments].concat())
    }

    fn daemon(&self, program: &Program) -> anyhow::Result<Daemon> {
        let (host, temp) = (self.host(), self.at("tmp"));
        Daemon::start(
            program,
            &[
                ("SANDBOX_PROVIDER", "docker"),
                ("SANDBOX_READY_POOL", POOL),
                ("SANDBOX_PER_KEY_CONCURRENT", "0"),
                ("DOCKER_HOST", &host),
                ("TMPDIR", temp.to_str().context("the folder is text")?),
            ],
        )
    }

    /// The counts once they have not changed for [`QUIET`].
    async fn quiet(&self, daemon: &Daemon) -> anyhow::Result<Counts> {
        let begun = std::time::Instant::now();
        let (mut last, mut since) = (self.counts(daemon)?, std::time::Instant::now());
        while since.elapsed() < QUIET {
            anyhow::ensure!(
                begun.elapsed() < QUIET_WITHIN,
                "the counts do not come to rest: {last:?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.counts(daemon)?;
            if !now.same(&last) {
                since = std::time::Instant::now();
            }
            last = now;
        }
        Ok(last)
    }

    fn counts(&self, daemon: &Daemon) -> anyhow::Result<Counts> {
        Ok(Counts {
            processes: self.processes()? + 1,
            descriptors: daemon.descriptors()?,
            containers: self.containers()?,
            groups: self.groups(),
            mounts: self.mounts()?,
            folders: fs_err::read_dir(self.at("tmp"))?.count(),
            disk: ["data", "exec", "tmp"].iter().map(|name| bytes(&self.at(name))).sum(),
        })
    }

    /// Containers, groups, mounts and folders without a daemon: there must be none.
    async fn at_rest(&self) -> anyhow::Result<(usize, usize, usize, usize)> {
        let now = || -> anyhow::Result<_> {
            Ok((
                self.containers()?,
                self.groups(),
                // The one network namespace that every container without a network shares.
                self.mounts()?.saturating_sub(1),
                fs_err::read_dir(self.at("tmp"))?.count(),
            ))
        };
        eventually(Duration::from_secs(20), async || {
            now().is_ok_and(|now| now == (0, 0, 0, 0))
        })
        .await;
        now()
    }

    fn containers(&self) -> anyhow::Result<usize> {
        let listed = self.docker(&["ps", "--all", "--quiet"])?;
        Ok(String::from_utf8(listed)?.lines().count())
    }

    /// The engine's own and its helpers name its folder; those in containers are in a group below its parent.
    fn processes(&self) -> anyhow::Result<usize> {
        let folder = self.folder.path().to_str().context("the folder is text")?;
        let group = format!("/{}/", parent(self.folder.path()));
        let mut count = 0;
        for entry in fs_err::read_dir("/proc")?.filter_map(Result::ok) {
            let path = entry.path();
            // A process may end while it is looked at.
            let text = |name: &str| fs_err::read_to_string(path.join(name)).unwrap_or_default();
            let ended = text("stat").contains(") Z ");
            // What asks the engine for these counts names its socket.
            let ours = text("cmdline").contains(folder) && text("comm").trim() != "docker";
            count += usize::from(!ended && (ours || text("cgroup").contains(&group)));
        }
        Ok(count)
    }

    /// Folders below the engine's parent, in the hierarchy with the most of them: version 1 has one for each controller.
    fn groups(&self) -> usize {
        let name = parent(self.folder.path());
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs_err::read_dir(root).into_iter().flatten().flatten();
        let hierarchies = hierarchies.map(|entry| entry.path().join(&name));
        hierarchies
            .chain([root.join(&name)])
            .map(|parent| folders(&parent))
            .max()
            .unwrap_or_default()
    }

    fn mounts(&self) -> anyhow::Result<usize> {
        let folder = self.folder.path().to_str().context("the folder is text")?;
        let mounted = fs_err::read_to_string("/proc/self/mountinfo")?;
        Ok(mounted.lines().filter(|line| line.contains(folder)).count())
    }
}

impl Drop for OwnEngine {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one mount that an engine leaves when it ends"
    )]
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.process);
        // Both may be over already.
        let _asked = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ended = self.process.wait();
        let mount = self.at("exec/runtime-runc/moby/null-netns");
        let _unmounted = Command::new("umount").arg(mount).stderr(Stdio::null()).status();
    }
}

/// The name of the control group above the engine's containers.
fn parent(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn folders(parent: &Path) -> usize {
    let entries = fs_err::read_dir(parent).into_iter().flatten().flatten();
    let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    inner.map(|entry| 1 + folders(&entry.path())).sum()
}

/// Bytes of disk below a folder, without what is mounted there. What goes meanwhile is not counted.
fn bytes(folder: &Path) -> u64 {
    let Ok(top) = fs_err::symlink_metadata(folder) else {
        return 0;
    };
    let mut sum = top.blocks() * 512;
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(one) = fs_err::symlink_metadata(entry.path()) else {
            continue;
        };
        if one.dev() != top.dev() {
            continue;
        }
        sum += if one.is_dir() {
            bytes(&entry.path())
        } else {
            one.blocks() * 512
        };
    }
    sum
}
