//! A daemon under measurement: started, looked at from outside, stopped.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The token a measured daemon is called with; its file holds the fingerprint only.
pub const TOKEN: &str = "benchmark-token-0123456789abcdefghijklmnop";

/// The token of another caller.
pub const OTHER_TOKEN: &str = "other-benchmark-token-0123456789abcdefghijkl";

/// How the daemon is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments: none for `plimsolld` itself.
    pub args: Vec<String>,
}

impl Program {
    /// The `plimsolld` built beside this program.
    ///
    /// # Errors
    /// When it was not built.
    pub fn plimsolld() -> anyhow::Result<Self> {
        Ok(Self {
            path: beside("plimsolld")?,
            args: Vec::new(),
        })
    }
}

/// An executable built beside this one.
///
/// # Errors
/// When it was not built.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(
        path.is_file(),
        "{} is missing; build everything first: cargo build --release --workspace --bins",
        path.display()
    );
    Ok(path)
}

/// A running daemon. Dropped without [`Daemon::stop`], it is killed.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    log: Option<JoinHandle<()>>,
    audit: Arc<AtomicU64>,
    address: SocketAddr,
    metrics: SocketAddr,
    /// Held so that the callers' file lives as long as the daemon.
    _folder: tempfile::TempDir,
}

impl Daemon {
    /// Starts a daemon with one caller and waits for its listening line. Rate limiting is off; `limits` adds variables.
    ///
    /// # Errors
    /// When it does not start; the error holds its log line.
    pub fn start(program: &Program, limits: &[(&str, &str)]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = command(program, folder.path(), limits)?
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(process.stderr.take().context("the log is piped")?);
        let mut line = String::new();
        let listening = loop {
            line.clear();
            anyhow::ensure!(log.read_line(&mut line)? > 0, "the daemon stopped before it listened");
            let record: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
            anyhow::ensure!(record["level"] != "ERROR", "the daemon does not start: {line}");
            if record["msg"] == "listening" {
                break record;
            }
        };
        let address = |name: &str| -> anyhow::Result<SocketAddr> {
            Ok(listening[name]
                .as_str()
                .with_context(|| format!("the listening line has no {name}"))?
                .parse()?)
        };
        let (rpc, metrics) = (address("addr")?, address("metrics_addr")?);
        let audit = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&audit);
        let log = std::thread::spawn(move || count_audit_lines(log, &counter));
        Ok(Self {
            process,
            log: Some(log),
            audit,
            address: rpc,
            metrics,
            _folder: folder,
        })
    }

    /// Where calls go.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` is.
    pub const fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// Audit lines seen so far.
    pub fn audit_lines(&self) -> u64 {
        self.audit.load(Ordering::Relaxed)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory in KiB.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident_kib(&self) -> anyhow::Result<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("VmRSS is stated")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// Memory in KiB, pages that are mapped several times counted once.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn proportional_kib(&self) -> anyhow::Result<u64> {
        let sums = fs_err::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))?;
        let line = sums.lines().find_map(|line| line.strip_prefix("Pss:"));
        Ok(line
            .context("Pss is stated")?
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()?)
    }

    /// Open descriptors.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn descriptors(&self) -> anyhow::Result<usize> {
        Ok(fs_err::read_dir(format!("/proc/{}/fd", self.process.id()))?.count())
    }

    /// Asks the daemon to stop, waits, and returns how many audit lines it wrote in all.
    ///
    /// # Errors
    /// When it does not end with success.
    pub fn stop(mut self) -> anyhow::Result<u64> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let status = self.process.wait()?;
        if let Some(log) = self.log.take() {
            log.join().map_err(|_| anyhow::anyhow!("the log reader panicked"))?;
        }
        anyhow::ensure!(status.success(), "the daemon ended with {status}");
        Ok(self.audit_lines())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill.
        let _already_stopped = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Starts a daemon on a fixed port without waiting for anything; for measuring its start.
///
/// # Errors
/// When the process cannot be started.
pub fn start_cold(program: &Program, port: u16) -> anyhow::Result<(Cold, Instant)> {
    let folder = tempfile::tempdir()?;
    let address = format!("127.0.0.1:{port}");
    let mut command = command(program, folder.path(), &[("PLIMSOLL_ADDR", &address)])?;
    command.stderr(Stdio::null());
    let started = Instant::now();
    let process = command.spawn()?;
    Ok((
        Cold {
            process,
            _folder: folder,
        },
        started,
    ))
}

/// A daemon nobody reads the log of; killed when dropped.
#[derive(Debug)]
pub struct Cold {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Cold {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Waits until a condition holds; whether it did within the time.
pub async fn eventually(within: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds().await {
            return true;
        }
        if start.elapsed() > within {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark starts the daemon it measures")]
fn command(program: &Program, folder: &Path, more: &[(&str, &str)]) -> anyhow::Result<Command> {
    let clients = folder.join("clients.json");
    let caller = |id: &str, token: &str| {
        let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "id": id, "token_sha256": digest, "scopes": ["code:run"] })
    };
    let file = json!({ "clients": [caller("bench", TOKEN), caller("other", OTHER_TOKEN)] });
    fs_err::write(&clients, file.to_string())?;
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .env_clear()
        .env("SANDBOX_PROVIDER", "wasm")
        .env("SANDBOX_RATE_PER_MIN", "0")
        .env("PLIMSOLL_CLIENTS_FILE", clients)
        .env("PLIMSOLL_ADDR", "127.0.0.1:0")
        .env("PLIMSOLL_METRICS_ADDR", "127.0.0.1:0")
        .envs(more.iter().copied())
        .stdin(Stdio::null());
    Ok(command)
}

/// Reads the log to its end, as a log collector would, and counts the audit lines of runs.
fn count_audit_lines(mut log: impl std::io::Read, counter: &AtomicU64) {
    const AUDIT: &[u8] = b"\"msg\":\"code run";
    let mut buffer = vec![0; 64 * 1024];
    let mut kept: Vec<u8> = Vec::new();
    while let Ok(read @ 1..) = log.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        let whole = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let found = kept[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| contains(line, AUDIT))
            .count();
        counter.fetch_add(u64::try_from(found).unwrap_or(0), Ordering::Relaxed);
        kept.drain(..whole);
    }
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    // The message stands near the start of the line, right after time and level.
    line.windows(text.len()).take(160).any(|window| window == text)
}
