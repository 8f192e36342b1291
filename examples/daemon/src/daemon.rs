//! Starting and stopping the daemon, and the file that names its callers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::Context as _;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A running daemon on a port of its own. Dropped without [`Daemon::stop`], it is killed.
pub(crate) struct Daemon {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Daemon {
    /// Starts the daemon and waits until it says where it listens. Its whole configuration is its environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "an example of a deployment starts the daemon as one does"
    )]
    pub(crate) fn start(clients_file: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(super::AS_DAEMON)
            .env_clear()
            .env("SANDBOX_PROVIDER", "wasm")
            .env("PLIMSOLL_CLIENTS_FILE", clients_file)
            .env("PLIMSOLL_ADDR", "127.0.0.1:0")
            .env("PLIMSOLL_METRICS_ADDR", "off")
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
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks the daemon to stop, waits for it, and counts the runs its audit shows.
    pub(crate) fn stop(mut self) -> anyhow::Result<usize> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let mut rest = String::new();
        self.log.read_to_string(&mut rest)?;
        let status = self.process.wait()?;
        anyhow::ensure!(status.success(), "the daemon ended with {status}");
        let records = rest.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(records.filter(|record| record["msg"] == "code run").count())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill.
        let _already_stopped = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// A token nobody can guess: 32 bytes of the system's randomness, in hexadecimal.
pub(crate) fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Writes the callers' file: who they are, what they may do, and the SHA-256 of each one's token.
pub(crate) fn write_clients_file(path: &Path, callers: &[(&str, &str)]) -> anyhow::Result<()> {
    let clients: Vec<Value> = callers
        .iter()
        .map(|(id, token)| json!({ "id": id, "token_sha256": hex(&Sha256::digest(token)), "scopes": ["code:run"] }))
        .collect();
    // Private from its first moment: the daemon warns about a file that others can write.
    let mut file = fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec_pretty(&json!({ "clients": clients }))?)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
