//! An engine of the test's own, which it may stop, kill and configure: the shared one serves others too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::engine;

/// How long the engine may take to start, and to end when it is asked to: it gives its containers ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where an engine finds its helpers; not every user's path has them all.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How the engine is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It is asked to.
    Asked,
    /// It is killed, and its containers with it only if something else sees to that.
    Killed,
}

/// The engine; it ends with the value, and everything of it with it.
pub(crate) struct OwnEngine {
    folder: TempDir,
    engine: Option<Child>,
}

impl OwnEngine {
    /// An engine with the shared one's runtimes and the image `plimsoll/sandbox`.
    pub(crate) async fn start() -> Self {
        let mut own = Self {
            folder: tempfile::tempdir().unwrap(),
            engine: None,
        };
        own.configure(&[("runsc", &shared_runsc().await)]);
        own.serve().await;
        let image = engine::ask("GET", "/images/plimsoll/sandbox:latest/get").await;
        let socket = own.socket();
        let (status, told) = engine::request_at(&socket, "POST", "/images/load", "application/x-tar", &image).await;
        let told = String::from_utf8_lossy(&told);
        assert!(status == 200 && !told.contains("\"error\""), "{status} {told}");
        own
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    /// As `DOCKER_HOST` states it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A file of the engine's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, runtimes: &[(&str, &Value)]) {
        let runtimes: BTreeMap<_, _> = runtimes.iter().copied().collect();
        fs_err::write(self.path("daemon.json"), json!({ "runtimes": runtimes }).to_string()).unwrap();
    }

    /// Registers this runtime in place of all others, with the running engine.
    pub(crate) async fn register(&self, name: &str, runtime: &Value) {
        self.configure(&[(name, runtime)]);
        self.signal("HUP").await;
        let began = Instant::now();
        loop {
            let known = &self.json("/info").await["Runtimes"][name];
            if known["path"] == runtime["path"] && known["runtimeArgs"] == runtime["runtimeArgs"] {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{name} is {known}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts it, again too, and waits until it answers.
    pub(crate) async fn serve(&mut self) {
        assert!(self.engine.is_none());
        let log = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        // What a killed one left would stop the next one.
        let _: std::io::Result<()> = fs_err::remove_file(self.path("pid"));
        let mut command = Command::from(self.command());
        self.engine = Some(command.stderr(log.into_parts().0).spawn().unwrap());
        let began = Instant::now();
        while !self.answers().await {
            assert!(began.elapsed() < PATIENCE, "{}", self.log());
            sleep(Duration::from_millis(50)).await;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the engine is what is tested against")]
    fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new("dockerd");
        command
            .env("PATH", PATH)
            .arg("--host")
            .arg(self.host())
            .arg("--pidfile")
            .arg(self.path("pid"))
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--config-file")
            .arg(self.path("daemon.json"))
            .args(["--bridge=none", "--iptables=false"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    async fn answers(&self) -> bool {
        // The socket of a killed engine is there and takes no connection.
        let reached = tokio::net::UnixStream::connect(self.socket()).await;
        reached.is_ok()
            && engine::request_at(&self.socket(), "GET", "/_ping", "text/plain", b"")
                .await
                .0
                == 200
    }

    fn log(&self) -> String {
        fs_err::read_to_string(self.path("log")).unwrap_or_default()
    }

    async fn signal(&self, name: &str) {
        let id = self.engine.as_ref().unwrap().id().unwrap().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(id).status().await;
        assert!(sent.unwrap().success());
    }

    /// Ends it and waits until it has ended.
    pub(crate) async fn end(&mut self, how: End) {
        self.signal(match how {
            End::Asked => "TERM",
            End::Killed => "KILL",
        })
        .await;
        let mut engine = self.engine.take().unwrap();
        let ended = tokio::time::timeout(PATIENCE, engine.wait()).await;
        assert!(ended.is_ok(), "{}", self.log());
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let (status, body) = engine::request_at(&self.socket(), "GET", path, "application/json", b"").await;
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// Every container there is: from ID to the folder of its one mount.
    pub(crate) async fn containers(&self) -> BTreeMap<String, PathBuf> {
        let listed = self.json("/containers/json?all=true").await;
        let listed = listed.as_array().unwrap().iter();
        listed
            .map(|one| {
                let socket = PathBuf::from(one["Mounts"][0]["Source"].as_str().unwrap());
                (
                    one["Id"].as_str().unwrap().to_owned(),
                    socket.parent().unwrap().to_owned(),
                )
            })
            .collect()
    }
}

impl Drop for OwnEngine {
    #[expect(clippy::disallowed_methods, reason = "an engine is ended by a signal")]
    fn drop(&mut self) {
        use std::process::Command;

        let end = |id: u32| Command::new("kill").arg(id.to_string()).status();
        let began = Instant::now();
        if let Some(id) = self.engine.as_ref().and_then(Child::id) {
            let _ = end(id);
            while let Some(Ok(None)) = self.engine.as_mut().map(Child::try_wait)
                && began.elapsed() < PATIENCE
            {
                std::thread::sleep(Duration::from_millis(50));
            }
        } else {
            // A test that failed while it was down: what a killed one leaves, the next one ends.
            let _ = fs_err::remove_file(self.path("pid"));
            if let Ok(mut again) = self.command().spawn() {
                std::thread::sleep(Duration::from_secs(5));
                let _ = end(again.id());
                let _ = again.wait();
            }
        }
        // What an engine leaves mounted when it ends: a network namespace, and its data folder on itself once it was killed.
        let mounted = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let places = mounted.lines().rev().filter_map(|line| line.split(' ').nth(4));
        for place in places.filter(|place| std::path::Path::new(place).starts_with(self.folder.path())) {
            let _ = Command::new("umount").arg(place).stderr(Stdio::null()).status();
        }
    }
}

/// How the shared engine registers gVisor.
pub(crate) async fn shared_runsc() -> Value {
    let known = &engine::json("/info").await["Runtimes"]["runsc"];
    json!({ "path": known["path"], "runtimeArgs": known["runtimeArgs"] })
}
