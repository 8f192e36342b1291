//! The engine that is running: which runtimes it says it knows, and having it read its configuration again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use thiserror::Error;

use crate::process::{ProcessError, Program};
use crate::register::{HOST_UDS, RUNTIME};

/// The name of the engine's process. Nothing else is ever signalled.
const PROCESS: &str = "dockerd";
/// What the engine reads when it was started with no other file.
pub(crate) const CONFIG: &str = "/etc/docker/daemon.json";
/// Where the engine writes its process id when its configuration names no other file.
const PID_FILE: &str = "/var/run/docker.pid";
/// The largest answer that is read.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// How long an engine may take for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long after the signal the runtime may take to show.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// How long a restarted engine may take to answer again.
const BACK_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the engine does not have the runtime yet. The registration itself stands.
#[derive(Debug, Error)]
pub enum EngineError {
    /// It answers with something that cannot be understood, or not at all.
    #[error("the engine at {} gives no answer that can be read: {error}", socket.display())]
    Answer {
        /// Where it listens.
        socket: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// It has to be told, and there is nobody to tell.
    #[error("the engine at {} has to read its configuration again, and its process is not found; restart it", .0.display())]
    NoProcess(PathBuf),
    /// It may not be told.
    #[error("the engine, process {pid}, cannot be signalled: {error}; run this as root, or restart the engine")]
    Signal {
        /// Its process id.
        pid: i32,
        /// The system's reason.
        error: io::Error,
    },
    /// The service manager does not restart it.
    #[error("the engine does not show the runtime after a reload, and restarting it failed: {0}")]
    Restart(#[from] ProcessError),
    /// It read another file, or reads none.
    #[error("the engine at {} does not show the runtime {RUNTIME} at {} after a reload. Does it read {}? Otherwise restart it by its own means, which ends its containers", socket.display(), runsc.display(), config.display())]
    NotShown {
        /// Where it listens.
        socket: PathBuf,
        /// What was registered.
        runsc: PathBuf,
        /// Where it was registered.
        config: PathBuf,
    },
}

/// What it took until the engine showed the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It showed it already.
    NotNeeded,
    /// It read its configuration again; no container noticed.
    Signalled,
    /// It was restarted by the service manager.
    Restarted,
    /// No engine answers. The next one that starts with the configuration has the runtime.
    NoEngine,
}

/// The engine behind a socket.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) config: &'a Path,
    process: &'a str,
    pid_file: &'a Path,
    shown_within: Duration,
    systemd: bool,
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "Runtimes", default)]
    runtimes: BTreeMap<String, Runtime>,
}

#[derive(Deserialize)]
struct Runtime {
    #[serde(default)]
    path: String,
    #[serde(rename = "runtimeArgs", default)]
    args: Option<Vec<String>>,
}

impl<'a> Engine<'a> {
    /// The one at this socket, which reads this configuration.
    pub(crate) fn at(socket: &'a Path, config: &'a Path) -> Self {
        Self {
            socket,
            config,
            process: PROCESS,
            pid_file: Path::new(PID_FILE),
            shown_within: SHOWN_WITHIN,
            systemd: Path::new("/run/systemd/system").is_dir(),
        }
    }

    /// The configuration file that the engine behind a socket was started with; the usual one when no engine answers there,
    /// or it was started with none.
    pub(crate) fn config_of(socket: &Path) -> PathBuf {
        let usual = PathBuf::from(CONFIG);
        let Ok(stream) = UnixStream::connect(socket) else {
            return usual;
        };
        let Some(pid) = Engine::at(socket, &usual).process_behind(&stream) else {
            return usual;
        };
        let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        config_among(&arguments).unwrap_or(usual)
    }

    /// Has the engine show the runtime at this path with our argument. A restart, which ends containers, is the last
    /// resort, and only of an engine that the service manager started.
    ///
    /// # Errors
    /// When it does not show it in the end.
    pub(crate) fn show(&self, runsc: &Path) -> Result<Reload, EngineError> {
        let Ok(stream) = UnixStream::connect(self.socket) else {
            return Ok(Reload::NoEngine);
        };
        if self.shows(runsc)? {
            return Ok(Reload::NotNeeded);
        }
        let pid = self
            .process_behind(&stream)
            .ok_or_else(|| EngineError::NoProcess(self.socket.to_owned()))?;
        kill_process(pid, Signal::HUP).map_err(|error| EngineError::Signal {
            pid: pid.as_raw_nonzero().get(),
            error: error.into(),
        })?;
        if self.shows_within(runsc, self.shown_within)? {
            return Ok(Reload::Signalled);
        }
        if self.systemd && main_process_of_service()? == Some(pid) {
            let mut restart = Program::new(Path::new("/usr/bin/systemctl"), ["restart", "docker.service"]);
            restart.deadline = Duration::from_secs(180);
            restart.answer()?;
            if self.shows_within(runsc, BACK_WITHIN)? {
                return Ok(Reload::Restarted);
            }
        }
        Err(EngineError::NotShown {
            socket: self.socket.to_owned(),
            runsc: runsc.to_owned(),
            config: self.config.to_owned(),
        })
    }

    /// Whether it says now that it runs `runsc` from this path with our argument.
    pub(crate) fn shows(&self, runsc: &Path) -> Result<bool, EngineError> {
        let info = self.info().map_err(|error| EngineError::Answer {
            socket: self.socket.to_owned(),
            error,
        })?;
        Ok(info.runtimes.get(RUNTIME).is_some_and(|runtime| {
            let args = runtime.args.as_deref().unwrap_or_default();
            Path::new(&runtime.path) == runsc && args.iter().any(|arg| arg == HOST_UDS)
        }))
    }

    /// Looks until it does or the time is over. An engine that is just starting does not answer, which is no error yet.
    fn shows_within(&self, runsc: &Path, time: Duration) -> Result<bool, EngineError> {
        let started = Instant::now();
        loop {
            match self.shows(runsc) {
                Ok(true) => return Ok(true),
                last if started.elapsed() >= time => return last,
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// The process at the other end of the socket, or the one in the process id file where a service manager listens in
    /// the engine's place. Only a process of the engine's name counts.
    fn process_behind(&self, stream: &UnixStream) -> Option<Pid> {
        let of_socket = || Some(rustix::net::sockopt::socket_peercred(stream).ok()?.pid);
        let of_file = || Pid::from_raw(fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()?);
        [of_socket(), of_file()].into_iter().flatten().find(|pid| {
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
            name.is_ok_and(|name| name.trim_end() == self.process)
        })
    }

    fn pid_file(&self) -> PathBuf {
        #[derive(Deserialize)]
        struct Config {
            pidfile: Option<PathBuf>,
        }
        let config = fs::read_to_string(self.config).ok();
        let config: Option<Config> = config.and_then(|text| serde_json::from_str(&text).ok());
        config
            .and_then(|config| config.pidfile)
            .unwrap_or_else(|| self.pid_file.to_owned())
    }

    /// One question in the oldest form of HTTP, whose answer ends with the connection.
    fn info(&self) -> io::Result<Info> {
        let mut stream = UnixStream::connect(self.socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(b"GET /info HTTP/1.0\r\nHost: engine\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER + 1).read_to_end(&mut answer)?;
        let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if answer.len() as u64 > MAX_ANSWER {
            return Err(odd("it is larger than 4 MiB"));
        }
        let end = answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .ok_or_else(|| odd("it is not HTTP"))?;
        let (head, body) = answer.split_at(end);
        let head = String::from_utf8_lossy(head);
        let status = head.lines().next().unwrap_or_default();
        if !(status.starts_with("HTTP/1.") && status.split(' ').nth(1) == Some("200")) {
            return Err(odd(&format!("it says {status:?}")));
        }
        Ok(serde_json::from_slice(body)?)
    }
}

/// The value of `--config-file` among the arguments of a process, each of which ends with a NUL byte.
fn config_among(arguments: &[u8]) -> Option<PathBuf> {
    let mut words = arguments.split(|byte| *byte == 0);
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix(b"--config-file") else {
            continue;
        };
        match rest {
            [] => return words.next().map(|value| PathBuf::from(OsStr::from_bytes(value))),
            [b'=', value @ ..] => return Some(PathBuf::from(OsStr::from_bytes(value))),
            _ => {}
        }
    }
    None
}

/// The process that the service manager runs as the engine, if it runs one.
fn main_process_of_service() -> Result<Option<Pid>, ProcessError> {
    let show = Program::new(
        Path::new("/usr/bin/systemctl"),
        ["show", "--property=MainPID", "--value", "docker.service"],
    );
    let answer = String::from_utf8_lossy(&show.answer()?).trim().parse().ok();
    Ok(answer.and_then(Pid::from_raw))
}

#[cfg(test)]
mod tests;
