//! Starting and stopping the daemon, and the two files an operator writes for it.

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
    /// Starts the daemon and waits until it says where it listens. The API's token is in its environment, under the name
    /// that the grants file gives.
    #[expect(
        clippy::disallowed_methods,
        reason = "an example of a deployment starts the daemon as one does"
    )]
    pub(crate) fn start(clients_file: &Path, grants_file: &Path, api_token: &str) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(super::AS_DAEMON)
            .env_clear()
            .env("SANDBOX_PROVIDER", "wasm")
            .env("PLIMSOLL_CLIENTS_FILE", clients_file)
            .env("PLIMSOLL_GRANTS_FILE", grants_file)
            .env(super::TOKEN_VARIABLE, api_token)
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

    /// Asks the daemon to stop, waits for it, and returns the rest of its log.
    pub(crate) fn stop(mut self) -> anyhow::Result<String> {
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

/// A token nobody can guess: 32 bytes of the system's randomness, in hexadecimal.
pub(crate) fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 32];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Writes the callers' file: who may call, and the SHA-256 of the token.
pub(crate) fn write_clients_file(path: &Path, id: &str, token: &str) -> anyhow::Result<()> {
    let client = json!({ "id": id, "token_sha256": hex(&Sha256::digest(token)), "scopes": ["code:run"] });
    write_private(path, &json!({ "clients": [client] }))
}

/// Writes JSON for the daemon to read. Private from its first moment: the daemon warns about a file that others can write.
pub(crate) fn write_private(path: &Path, content: &Value) -> anyhow::Result<()> {
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
