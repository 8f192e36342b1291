//! Starting the command as a user does.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program start it and fail by panicking"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn stdout_text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Standard error with what differs from run to run replaced by its name.
    pub(crate) fn stderr_named(&self) -> String {
        let words = self.stderr.split(' ').map(|word| {
            let bare = word.trim_end();
            let digest = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
            if digest {
                word.replace(bare, "<digest>")
            } else {
                word.to_owned()
            }
        });
        let text = words.collect::<Vec<_>>().join(" ");
        match text
            .split_once("tier process, ")
            .map(|(head, rest)| (head, rest.split_once(", ").unwrap_or_default()))
        {
            Some((head, (_, rest))) => format!("{head}tier process, <duration>, {rest}"),
            None => text,
        }
    }
}

/// The command with an environment of its own: nothing of the developer's reaches it.
pub(crate) fn command(args: &[&str]) -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_plimsoll")), args)
}

/// The same of another program.
pub(crate) fn program(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn plimsoll(args: &[&str]) -> Ran {
    finish(command(args).spawn().unwrap())
}

/// Runs a program that arrives on standard input.
pub(crate) fn run(program: impl AsRef<[u8]>, args: &[&str]) -> Ran {
    run_with(program, args, &[])
}

pub(crate) fn run_with(program: impl AsRef<[u8]>, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = command(&[&["run", "-"], args].concat());
    let mut child = command
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may refuse before it has read everything.
    let _refused_early = child.stdin.take().unwrap().write_all(program.as_ref());
    finish(child)
}

pub(crate) fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().expect("the command ends by itself"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `plimsoll serve` with one token; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) url: String,
}

pub(crate) const TOKEN: &str = "test-token-0123456789abcdefghijklmnopqrs";

impl Daemon {
    pub(crate) fn start() -> Self {
        Self::start_with(&[("SANDBOX_PROVIDER", "wasm")])
    }

    /// Behind the provider these variables choose.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        let mut child = command(&["serve"])
            .envs(variables.iter().copied())
            .env("PLIMSOLL_TOKEN", TOKEN)
            .env("PLIMSOLL_ADDR", "127.0.0.1:0")
            .env("PLIMSOLL_METRICS_ADDR", "off")
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let url = loop {
            let mut line = String::new();
            assert!(
                log.read_line(&mut line).unwrap() > 0,
                "the daemon stopped before it listened"
            );
            let record: serde_json::Value = serde_json::from_str(&line).unwrap();
            if record["msg"] == "listening" {
                let scheme = if record["tls"] == true { "https" } else { "http" };
                break format!("{scheme}://{}", record["addr"].as_str().unwrap());
            }
        };
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, url }
    }
}

impl Daemon {
    /// Stops it where it stands: what is sent to it waits for ever.
    pub(crate) fn halt(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
