//! Roles that stand in for guest code. The smoke test runs them as steps of a project, by the binary's own path.
//!
//! | Role | What it does |
//! |---|---|
//! | `probe` | collects facts (PID 1 starts it) |
//! | `try-runner` | tries to open PID 1's descriptors and memory; exits 0 when every attempt is refused |
//! | `leave-processes` | leaves three kinds of processes behind and exits 0 |
//! | `eat-memory MIB`, `eat-memory-child MIB` | writes to that much memory, itself or in a child |
//! | `fork-until-refused N` | starts up to N processes; exits 0 when one was refused |
//! | `version` | prints the protocol version |

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_guest_messages::limits::PROTOCOL_VERSION;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::{probe, sys};

/// Plays a role to its end.
pub(crate) fn play(role: &str, argument: &str) -> ExitCode {
    match role {
        probe::ROLE => match probe::collect(argument) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("probe: {error}"));
                ExitCode::FAILURE
            }
        },
        "try-runner" => try_runner(),
        "leave-processes" => leave_processes(),
        "eat-memory" => with_number(argument, eat_memory),
        "eat-memory-child" => with_number(argument, eat_memory_in_a_child),
        "fork-until-refused" => with_number(argument, fork_until_refused),
        "version" => {
            say(PROTOCOL_VERSION);
            ExitCode::SUCCESS
        }
        other => usage(&format!("{other:?} is not a role")),
    }
}

/// A line on standard error. A closed one is no reason to stop.
pub(crate) fn complain(line: &str) {
    let _closed = writeln!(std::io::stderr(), "{line}");
}

fn say(line: impl Display) {
    let _closed = writeln!(std::io::stdout(), "{line}");
}

fn usage(problem: &str) -> ExitCode {
    complain(&format!("plimsoll-guest: {problem}"));
    ExitCode::from(2)
}

fn with_number(argument: &str, play: fn(usize) -> ExitCode) -> ExitCode {
    match argument.parse() {
        Ok(number) => play(number),
        Err(_) => usage(&format!("{argument:?} is not a number")),
    }
}

/// One line an attempt: what, how, and the error number, 0 when it worked.
fn try_runner() -> ExitCode {
    let attempts = [
        ("fd/0", "read", OFlags::RDONLY),
        ("fd/1", "read", OFlags::RDONLY),
        ("fd/1", "write", OFlags::WRONLY),
        ("mem", "read", OFlags::RDONLY),
        ("environ", "read", OFlags::RDONLY),
    ];
    let mut refused = true;
    for (file, how, flags) in attempts {
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let outcome = rustix::fs::open(format!("/proc/1/{file}"), flags, Mode::empty()).map(drop);
        refused &= matches!(outcome, Err(Errno::ACCESS | Errno::PERM));
        say(format_args!(
            "{file} {how} {}",
            outcome.map_or_else(Errno::raw_os_error, |()| 0)
        ));
    }
    if refused { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn leave_processes() -> ExitCode {
    for kind in 0..3 {
        match sys::fork() {
            Ok(Some(_)) => {}
            Ok(None) => stay(kind),
            Err(error) => {
                complain(&format!("fork: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
    // The last of the three needs a moment to lose its first thread.
    std::thread::sleep(Duration::from_millis(50));
    say("left 3");
    ExitCode::SUCCESS
}

/// Stays: as a plain child, as the child of a child in a session of its own, or as a process without its first thread.
fn stay(kind: u32) -> ! {
    match kind {
        0 => sys::become_idle(),
        1 => {
            let _may_fail_as_leader = rustix::process::setsid();
            match sys::fork() {
                Ok(None) => sys::become_idle(),
                Ok(Some(_)) | Err(_) => sys::leave_first_thread(),
            }
        }
        _ => {
            let thread = std::thread::Builder::new().spawn(|| -> () { sys::become_idle() });
            match thread {
                Ok(_) => sys::leave_first_thread(),
                Err(_) => sys::become_idle(),
            }
        }
    }
}

/// Bounded, so that a machine whose limit does not hold survives the test of it.
fn eat_memory(mebibytes: usize) -> ExitCode {
    let mut eaten = Vec::new();
    for _ in 0..mebibytes {
        eaten.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
    say(format_args!("ate {} MiB", eaten.len()));
    ExitCode::SUCCESS
}

fn eat_memory_in_a_child(mebibytes: usize) -> ExitCode {
    match sys::fork() {
        Ok(None) => eat_memory(mebibytes),
        Ok(Some(child)) => {
            let status = waitpid(Some(child), WaitOptions::empty());
            let signal = status
                .ok()
                .flatten()
                .and_then(|(_, status)| status.terminating_signal());
            say(format_args!("child ended by signal {}", signal.unwrap_or(0)));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("fork: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn fork_until_refused(most: usize) -> ExitCode {
    let mut children: Vec<Pid> = Vec::new();
    let refusal = loop {
        if children.len() == most {
            break None;
        }
        match sys::fork() {
            Ok(Some(child)) => children.push(child),
            Ok(None) => sys::become_idle(),
            Err(error) => break Some(error.raw_os_error().unwrap_or(0)),
        }
    };
    for child in &children {
        let _gone = kill_process(*child, Signal::KILL);
        let _gone = waitpid(Some(*child), WaitOptions::empty());
    }
    match refusal {
        Some(errno) => {
            say(format_args!("refused after {} with {errno}", children.len()));
            ExitCode::SUCCESS
        }
        None => {
            say(format_args!("not refused after {}", children.len()));
            ExitCode::FAILURE
        }
    }
}
