//! Interpreters that are kept between the cells of a session.
//!
//! Each is a child of PID 1 with a program of ours in it, the kernel, which takes one cell after another. They speak over two
//! pipes that only these two have: descriptor 3 carries to the kernel, descriptor 4 from it.
//!
//! ```text
//!  PID 1 ──  !  (one byte: a cell comes)  ──► kernel
//!        ◄── b  (begun: what the streams held is thrown away)
//!        ──  c nonce code  ──►
//!        ◄── d nonce status  (everything the cell wrote is in its streams)
//! ```
//!
//! From the end of a cell to the code of the next the kernel's own thread waits without running anything of the guest's.
//! Threads that earlier cells have started do run then, until PID 1 stops the process: what they write before the code is
//! handed over is thrown away, and what they write after it is the cell's.
//!
//! The kernel shares its process with the guest's code, so it is believed nothing but that a cell ended, and how. Whatever
//! else it says, and any answer that no kernel of ours gives, costs that code its interpreter and nobody anything else. A
//! frame is a letter, the length of its body in four bytes with the highest first, and the body.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::{CELL_STREAM_CAP, WORK_DIR};
use plimsoll_guest_messages::{Captured, CellOutcome, Language};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::{Child, NotStarted, Start, Untaken};
use crate::environment::Environment;
use crate::hub::{Hub, Stop, Watched};
use crate::sys::Launch;
use crate::tree::KILL_BUDGET;

/// In one function, so that its own are no global variables.
const JAVASCRIPT_KERNEL: &str = concat!(
    "'use strict';\n(() => {\n",
    include_str!("../js/cell_start.cjs"),
    include_str!("../js/cell_rewriter.cjs"),
    include_str!("../js/cell_kernel.cjs"),
    "})();\n",
);
const PYTHON_KERNEL: &str = include_str!("../py/cell_kernel.py");

/// How long an interpreter may take to be ready for its first cell.
const READY_WITHIN: Duration = Duration::from_secs(20);

const BELL: &[u8] = b"!";
const CODE: u8 = b'c';
const READY: u8 = b'r';
const BEGUN: u8 = b'b';
const DONE: u8 = b'd';

/// Length of a nonce.
const NONCE: usize = 32;

/// Longest body that a kernel sends.
const LONGEST_BODY: usize = NONCE + 1;

/// One kept interpreter.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(crate) language: Language,
    child: Child,
    to: OwnedFd,
    from: OwnedFd,
    heard: Vec<u8>,
    command: Vec<u8>,
    answered: bool,
}

/// How a cell went in its interpreter.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: CellOutcome,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// What came of waiting for a kernel.
enum Heard {
    Frame(u8, Vec<u8>),
    /// The process or its pipe ended, or it said what no kernel says.
    Gone(&'static str),
    Late,
}

fn gone(words: impl Into<String>) -> Untaken {
    Untaken::Gone(NotStarted::ended(words))
}

impl Interpreter {
    /// Starts one and waits until it takes cells. It is kept from the first moment on.
    pub(crate) fn start(
        hub: &mut Hub,
        language: Language,
        environment: &Environment,
        until: Instant,
    ) -> Result<Result<Self, Untaken>, Stop> {
        let mut interpreter = match Self::spawn(hub, language, environment) {
            Ok(interpreter) => interpreter,
            Err(error) => return Ok(Err(Untaken::Gone(NotStarted::refused(Some(WORK_DIR), &error)))),
        };
        hub.keep(interpreter.child.pid);
        let ready = Instant::now() + READY_WITHIN;
        let cause = match interpreter.hear(hub, &[], until.min(ready))? {
            Heard::Frame(READY, _) => {
                interpreter.command = interpreter.command_line();
                return Ok(Ok(interpreter));
            }
            Heard::Frame(..) => gone("it spoke before it was ready"),
            Heard::Gone(cause) => gone(format!("{cause}: {}", interpreter.last_words())),
            Heard::Late if ready < until && !hub.stop_asked() => {
                gone(format!("it was not ready within {} s", READY_WITHIN.as_secs()))
            }
            Heard::Late => Untaken::Late,
        };
        interpreter.end(hub)?;
        Ok(Err(cause))
    }

    fn spawn(hub: &Hub, language: Language, environment: &Environment) -> std::io::Result<Self> {
        let (kernel_reads, to) = pipe_with(PipeFlags::CLOEXEC)?;
        let (from, kernel_writes) = pipe_with(PipeFlags::CLOEXEC)?;
        for own in [&to, &from] {
            let flags = rustix::fs::fcntl_getfl(own)?;
            rustix::fs::fcntl_setfl(own, flags | OFlags::NONBLOCK)?;
        }
        let (program, arguments): (_, &[&str]) = match language {
            Language::JavaScript => ("node", &["-e", JAVASCRIPT_KERNEL]),
            Language::Python => ("python3", &["-I", "-c", PYTHON_KERNEL]),
        };
        let child = Child::start(Start {
            launch: Launch {
                program,
                name: program,
                arguments,
                environment: environment.as_slice(),
                directory: Some(WORK_DIR),
                stdin: None,
                extra: &[kernel_reads.as_fd(), kernel_writes.as_fd()],
                unseen: hub.is_alone(),
                to_be_stopped: true,
            },
            cap: CELL_STREAM_CAP,
            kill_at_cap: false,
        })?;
        Ok(Self {
            language,
            child,
            to,
            from,
            heard: Vec::new(),
            command: Vec::new(),
            answered: false,
        })
    }

    /// Its process.
    pub(crate) const fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Whether it lives and PID 1 keeps it.
    pub(crate) fn lives(&self, hub: &Hub) -> bool {
        hub.kept().contains(&self.child.pid)
    }

    /// Whether its process still is what was started: it may have become another program.
    pub(crate) fn is_itself(&self) -> bool {
        !self.command.is_empty() && self.command == self.command_line()
    }

    /// Whether no cell of it has been answered.
    pub(crate) const fn is_fresh(&self) -> bool {
        !self.answered
    }

    /// Stops it until the next cell, threads and timers of earlier cells included.
    pub(crate) fn still(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it wait for a cell's code. From here to the code nothing of the guest's runs in it but threads of earlier cells.
    pub(crate) fn begin(&mut self, hub: &mut Hub, deadline: Instant) -> Result<Result<(), Untaken>, Stop> {
        self.signal(Signal::CONT);
        let heard = match self.hear(hub, BELL, deadline)? {
            Heard::Frame(BEGUN, _) => {
                self.child.stdout.discard();
                self.child.stderr.discard();
                return Ok(Ok(()));
            }
            Heard::Frame(..) => gone("it spoke before it was asked"),
            Heard::Gone(cause) => gone(cause),
            Heard::Late => Untaken::Late,
        };
        Ok(Err(heard))
    }

    /// Hands the code over and waits for the cell's end. Whoever calls ends the interpreter where the outcome says so.
    pub(crate) fn run(&mut self, hub: &mut Hub, nonce: &str, code: &str, deadline: Instant) -> Result<Ran, Stop> {
        let mut frame = Vec::with_capacity(5 + NONCE + code.len());
        frame.push(CODE);
        let length = u32::try_from(nonce.len() + code.len()).map_err(|error| Stop::fault("cell", error))?;
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(nonce.as_bytes());
        frame.extend_from_slice(code.as_bytes());
        let outcome = match self.hear(hub, &frame, deadline)? {
            Heard::Frame(DONE, body) => match body.split_at_checked(NONCE) {
                Some((told, [b'0'])) if told == nonce.as_bytes() => CellOutcome::Ran,
                Some((told, [b'1'])) if told == nonce.as_bytes() => CellOutcome::Raised,
                Some((told, [b'3'])) if told == nonce.as_bytes() => CellOutcome::NeverSettles,
                _ => CellOutcome::Died,
            },
            Heard::Frame(..) | Heard::Gone(_) => CellOutcome::Died,
            Heard::Late => CellOutcome::TimedOut,
        };
        self.answered = true;
        self.child.stdout.read_to_end();
        self.child.stderr.read_to_end();
        Ok(Ran {
            outcome,
            stdout: self.child.stdout.take(),
            stderr: self.child.stderr.take(),
        })
    }

    /// Kills its process, and returns when that is gone. What it has started is the sweep's business.
    pub(crate) fn end(self, hub: &mut Hub) -> Result<(), Stop> {
        let until = Instant::now() + KILL_BUDGET;
        while self.lives(hub) {
            self.signal(Signal::KILL);
            if Instant::now() >= until {
                return Err(Stop::Fault("an interpreter does not die".into()));
            }
            hub.wait(&mut [], Some(Instant::now() + Duration::from_millis(5)))?;
        }
        Ok(())
    }

    /// Writes all of `text` and waits for one frame, moving the streams meanwhile.
    fn hear(&mut self, hub: &mut Hub, text: &[u8], until: Instant) -> Result<Heard, Stop> {
        let mut rest = text;
        loop {
            if let Some(heard) = self.frame() {
                // An answer to what was not said whole is none.
                let early = Heard::Gone("it answered before it was told everything");
                return Ok(if rest.is_empty() { heard } else { early });
            }
            if !self.lives(hub) {
                return Ok(Heard::Gone("it ended"));
            }
            if Instant::now() >= until || hub.stop_asked() {
                return Ok(Heard::Late);
            }
            if let Some(gone) = self.turn(hub, &mut rest, until)? {
                return Ok(gone);
            }
        }
    }

    fn turn(&mut self, hub: &mut Hub, rest: &mut &[u8], until: Instant) -> Result<Option<Heard>, Stop> {
        let Child { stdout, stderr, .. } = &mut self.child;
        let mut watched = vec![Watched::readable(&self.from)];
        watched.extend(
            [&*stdout, &*stderr]
                .into_iter()
                .filter_map(|stream| stream.pipe())
                .map(Watched::readable),
        );
        if !rest.is_empty() {
            watched.push(Watched::writable(&self.to));
        }
        hub.wait(&mut watched, Some(until))?;
        let speaks = watched[0].ready;
        drop(watched);
        stdout.read_once();
        stderr.read_once();
        if !rest.is_empty() {
            match rustix::io::write(&self.to, rest) {
                Ok(written) => *rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Ok(Some(Heard::Gone("it closed its pipe"))),
            }
        }
        if speaks {
            let mut chunk = [0; 4 << 10];
            match rustix::io::read(&self.from, &mut chunk) {
                Ok(0) => return Ok(Some(Heard::Gone("it closed its pipe"))),
                Ok(read) => self.heard.extend_from_slice(&chunk[..read]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Ok(Some(Heard::Gone("its pipe broke"))),
            }
        }
        Ok(None)
    }

    /// The frame that is there whole, or that no kernel sends.
    fn frame(&mut self) -> Option<Heard> {
        let (head, rest) = self.heard.split_first_chunk::<5>()?;
        let [kind, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST_BODY {
            return Some(Heard::Gone("it said what no interpreter says"));
        }
        let body = rest.get(..length)?.to_vec();
        self.heard.drain(..5 + length);
        Some(Heard::Frame(kind, body))
    }

    fn signal(&self, signal: Signal) {
        // It may be gone; whoever waits for it sees that.
        let _gone = kill_process(self.child.pid, signal);
    }

    fn command_line(&self) -> Vec<u8> {
        fs_err::read(format!("/proc/{}/cmdline", self.child.pid.as_raw_nonzero())).unwrap_or_default()
    }

    /// The last line it wrote, for whoever wants to know why it did not start.
    fn last_words(&mut self) -> String {
        self.child.stderr.read_to_end();
        let bytes = self.child.stderr.take().bytes;
        let text = String::from_utf8_lossy(&bytes);
        let line = text
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it wrote nothing");
        line.chars().take(200).collect()
    }
}
