//! Starts the real `plimsolld` with an environment of the test's own making.
#![allow(dead_code, reason = "each test binary uses its part of these helpers")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// A token that is long enough.
pub(crate) const GOOD_TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// How a daemon that ended by itself ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A program with an environment of its own.
#[expect(clippy::disallowed_methods, reason = "the test's subject is this process")]
pub(crate) fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_plimsolld"))
}

/// Runs to the end. A daemon that would serve is stopped after its start-up line and has no exit code.
pub(crate) fn run(arguments: &[&str], values: &[(&str, &str)]) -> Run {
    finish(command(binary(), arguments).envs(quiet_ports(values)))
}

/// The same with one variable of arbitrary bytes.
pub(crate) fn run_with_bytes(arguments: &[&str], name: &str, value: &[u8]) -> Run {
    finish(command(binary(), arguments).env(name, OsStr::from_bytes(value)))
}

/// Ports the system chooses, unless the test says otherwise.
fn quiet_ports<'a>(values: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![
        ("PLIMSOLL_ADDR", "127.0.0.1:0"),
        ("PLIMSOLL_METRICS_ADDR", "127.0.0.1:0"),
    ];
    all.extend_from_slice(values);
    all
}

fn finish(command: &mut Command) -> Run {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while stderr.read_line(&mut text).unwrap() > 0 {
        if text.contains("\"msg\":\"listening\"") {
            child.kill().unwrap();
        }
    }
    let code = child.wait().unwrap().code();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    Run {
        code,
        stdout,
        stderr: text,
    }
}

/// A daemon whose log can never be written, on ports found beforehand.
pub(crate) struct Mute {
    child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) metrics_addr: Option<SocketAddr>,
}

/// Starts a daemon whose stderr takes nothing.
pub(crate) fn start_with_full_log(values: &[(&str, &str)]) -> Mute {
    let free = || {
        std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let (addr, metrics_addr) = (free(), free());
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = command(binary(), &[]);
    command
        .envs(values.iter().copied())
        .env("PLIMSOLL_ADDR", addr.to_string())
        .env("PLIMSOLL_METRICS_ADDR", metrics_addr.to_string())
        .stdout(Stdio::null())
        .stderr(full.into_parts().0);
    let child = command.spawn().unwrap();
    let mute = Mute {
        child,
        addr,
        metrics_addr: Some(metrics_addr),
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < deadline, "the daemon does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    mute
}

impl Drop for Mute {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon that serves.
pub(crate) struct Daemon {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Its records so far.
    pub(crate) records: Vec<serde_json::Value>,
    /// The last of them as it was written.
    pub(crate) last_line: String,
    /// Where callers connect.
    pub(crate) addr: SocketAddr,
    /// Where metrics are, unless they are off.
    pub(crate) metrics_addr: Option<SocketAddr>,
}

impl Daemon {
    /// Starts it and waits for its start-up line.
    pub(crate) fn start(values: &[(&str, &str)]) -> Self {
        Self::spawn(command(binary(), &[]).envs(quiet_ports(values)))
    }

    /// The same for another copy of the program, under another user.
    pub(crate) fn start_as(program: &Path, user: u32, values: &[(&str, &str)]) -> Self {
        use std::os::unix::process::CommandExt as _;
        Self::spawn(command(program, &[]).envs(quiet_ports(values)).uid(user))
    }

    /// The same for a command of the test's own.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut daemon = Self {
            child,
            stderr,
            records: Vec::new(),
            last_line: String::new(),
            addr: nowhere,
            metrics_addr: None,
        };
        let listening = daemon.wait_for("listening");
        daemon.addr = listening["addr"].as_str().unwrap().parse().unwrap();
        daemon.metrics_addr = listening["metrics_addr"].as_str().unwrap().parse().ok();
        daemon
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }

    /// Reads the log up to the first record with this message.
    pub(crate) fn wait_for(&mut self, message: &str) -> serde_json::Value {
        loop {
            let mut line = String::new();
            assert!(
                self.stderr.read_line(&mut line).unwrap() > 0,
                "the daemon ended: {:#?}",
                self.records
            );
            let record: serde_json::Value = serde_json::from_str(&line).unwrap();
            self.records.push(record.clone());
            self.last_line = line;
            if record["msg"] == message {
                return record;
            }
        }
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end; the rest of the log is in `records`. A daemon writes nothing to its standard output.
    pub(crate) fn wait(mut self) -> (std::process::ExitStatus, Vec<serde_json::Value>) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert_eq!(stdout, "", "standard output");
        let mut records = std::mem::take(&mut self.records);
        records.extend(
            rest.lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()),
        );
        (self.child.wait().unwrap(), records)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP/1.1 exchange on a connection of its own: status, headers in lower case, body.
pub(crate) fn exchange(addr: SocketAddr, head: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = head.trim_end();
    write!(
        stream,
        "{head}\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// One GET.
pub(crate) fn get(addr: SocketAddr, path: &str) -> (u16, String, String) {
    exchange(addr, &format!("GET {path} HTTP/1.1"), "")
}

/// One snippet through `Run`, as Connect JSON.
pub(crate) fn run_snippet(addr: SocketAddr, token: Option<&str>, code: &str) -> (u16, serde_json::Value) {
    let (head, body) = run_request(token, 0, code);
    let (status, _, body) = exchange(addr, &head, &body);
    (status, serde_json::from_str(&body).unwrap())
}

/// The same with a time limit in milliseconds.
pub(crate) fn run_snippet_for(addr: SocketAddr, token: &str, timeout_ms: u32, code: &str) -> (u16, serde_json::Value) {
    let (head, body) = run_request(Some(token), timeout_ms, code);
    let (status, _, body) = exchange(addr, &head, &body);
    (status, serde_json::from_str(&body).unwrap())
}

/// Sends a run and leaves its answer to come.
pub(crate) fn begin_snippet(addr: SocketAddr, token: &str, timeout_ms: u32, code: &str) -> TcpStream {
    let (head, body) = run_request(Some(token), timeout_ms, code);
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(
        stream,
        "{head}Host: test\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

fn run_request(token: Option<&str>, timeout_ms: u32, code: &str) -> (String, String) {
    let mut head = "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\n".to_owned();
    if let Some(token) = token {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    let body = serde_json::json!({"protocol": 4, "timeoutMs": timeout_ms, "javascript": {"code": code}}).to_string();
    (head, body)
}

/// A clients file with these callers, each with the scope `code:run`.
pub(crate) fn write_clients(path: &Path, callers: &[(&str, &str)]) {
    let clients: Vec<serde_json::Value> = callers
        .iter()
        .map(|(id, token)| {
            let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({"id": id, "token_sha256": digest, "scopes": ["code:run"]})
        })
        .collect();
    fs_err::write(path, serde_json::json!({"clients": clients}).to_string()).unwrap();
}
