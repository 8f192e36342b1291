//! What the examples with a daemon share: starting and stopping it, and the files an operator writes for it.
//!
//! One executable plays both parts: an example starts itself once more as the daemon, so that nothing needs to be installed.
//! In a deployment the daemon is the `plimsolld` binary; [`as_daemon`] is all of it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitCode, Stdio};

use anyhow::Context as _;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The argument that makes an example the daemon.
const AS_DAEMON: &str = "as-daemon";

/// Serves until a signal, if this process was started as the daemon; an example's `main` asks this first.
pub fn as_daemon() -> Option<ExitCode> {
    let role = std::env::args_os().nth(1)?;
    (role == AS_DAEMON).then(|| plimsolld::serve("example", plimsoll::env::Environment::of_process))
}

/// A running daemon on a port of its own. Dropped without [`Daemon::stop`], it is killed.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Daemon {
    /// Starts the daemon and waits until it says where it listens. Its whole configuration is its environment: the callers'
    /// file, and `more` variables.
    ///
    /// # Errors
    /// It cannot be started, or stops before it listens.
    #[expect(
        clippy::disallowed_methods,
        reason = "an example of a deployment starts the daemon as one does"
    )]
    pub fn start(clients_file: &Path, more: &[(&str, &OsStr)]) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(AS_DAEMON)
            .env_clear()
            .env("SANDBOX_PROVIDER", "wasm")
            .env("PLIMSOLL_CLIENTS_FILE", clients_file)
            .env("PLIMSOLL_ADDR", "127.0.0.1:0")
            .env("PLIMSOLL_METRICS_ADDR", "off")
            .envs(more.iter().copied())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(process.stderr.take().context("the daemon's log is piped")?);
        loop {
            let mut line = String::new();
            anyhow::ensure!(log.read_line(&mut line)? > 0, "the daemon stopped before it listened");
            let record: Value = serde_json::from_str(&line)?;
            if record["msg"] == "listening" {
                let address = record["addr"]
                    .as_str()
                    .context("the listening line names the address")?
                    .to_owned();
                return Ok(Self { process, log, address });
            }
            anyhow::ensure!(record["level"] != "ERROR", "the daemon does not start: {line}");
        }
    }

    /// Where to send calls.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks the daemon to stop, waits for it, and returns the rest of its log.
    ///
    /// # Errors
    /// It does not end as it should.
    pub fn stop(mut self) -> anyhow::Result<String> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let mut rest = String::new();
        self.log.read_to_string(&mut rest)?;
        let status = self.process.wait()?;
        anyhow::ensure!(status.success(), "the daemon ended with {status}");
        Ok(rest)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill.
        let _already_stopped = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The audit lines of a daemon's log: one a run.
pub fn audit(log: &str) -> impl Iterator<Item = Value> {
    let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter(|record| record["msg"] == "code run")
}

/// A token nobody can guess: 32 bytes of the system's randomness, in hexadecimal.
///
/// # Errors
/// The system gives none.
pub fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Writes the callers' file: who they are, what they may do, and the SHA-256 of each one's token.
///
/// # Errors
/// As [`write_private`].
pub fn write_clients_file(path: &Path, callers: &[(&str, &str)]) -> anyhow::Result<()> {
    let clients: Vec<Value> = callers
        .iter()
        .map(|(id, token)| json!({ "id": id, "token_sha256": hex(&Sha256::digest(token)), "scopes": ["code:run"] }))
        .collect();
    write_private(path, &json!({ "clients": clients }))
}

/// Writes JSON for the daemon to read. Private from its first moment: the daemon warns about a file that others can write.
///
/// # Errors
/// There is such a file already, or it cannot be written.
pub fn write_private(path: &Path, content: &Value) -> anyhow::Result<()> {
    let mut file = fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec_pretty(content)?)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
