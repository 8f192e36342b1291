//! One supervised process: its streams, its deadline, its end.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use plimsoll_guest_messages::{Captured, End};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};

use crate::facts::CallFacts;
use crate::hub::{Hub, Stop, Watched};
use crate::sys::{self, Launch};
use crate::tree;

/// The end of this much time from `began`; some thirty years when that is beyond what a clock holds.
pub(crate) fn deadline(began: Instant, milliseconds: u64) -> Instant {
    let far = || began + Duration::from_secs(1_000_000_000);
    began
        .checked_add(Duration::from_millis(milliseconds))
        .unwrap_or_else(far)
}

/// How often the tree is counted while it runs.
const SAMPLE: Duration = Duration::from_secs(1);

/// A process to start and supervise.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) launch: Launch<'a>,
    /// Bytes kept of each stream.
    pub(crate) cap: usize,
    /// The process is killed when it writes more.
    pub(crate) kill_at_cap: bool,
}

/// A process that has been started.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    kill_at_cap: bool,
}

/// Why no process took a call's code.
#[derive(Debug)]
pub(crate) enum Untaken {
    /// There is none.
    Gone(NotStarted),
    /// The time was up.
    Late,
}

/// Why there is no process, in words.
#[derive(Debug, Default)]
pub(crate) struct NotStarted {
    pub(crate) words: String,
    /// It may be for want of memory or processes.
    pub(crate) for_want: bool,
}

impl NotStarted {
    /// The kernel would not start a program in this directory.
    pub(crate) fn refused(directory: Option<&str>, error: &std::io::Error) -> Self {
        // Its error is the same for the program and for the directory.
        let entered = directory.map(|path| (path, access(path, Access::EXEC_OK)));
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        Self {
            words: match entered {
                Some((path, Err(error))) => format!("{path} cannot be entered: {error}"),
                Some((_, Ok(()))) | None => error.to_string(),
            },
            for_want: matches!(errno, Some(Errno::AGAIN | Errno::NOMEM)),
        }
    }

    /// It was started and is no more, or is not what was started.
    pub(crate) fn ended(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            for_want: true,
        }
    }
}

/// How a supervised process ended. Nothing of its tree lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) timed_out: bool,
    pub(crate) at: Instant,
}

/// Work that goes on beside a process: feeding its input.
pub(crate) trait Beside {
    /// What to wait for.
    fn watched(&self) -> Vec<Watched<'_>>;
    /// Moves on what became ready, in the order of [`watched`](Self::watched).
    fn advance(&mut self, hub: &mut Hub, ready: &[bool]) -> Result<(), Stop>;
}

/// Nothing beside.
#[derive(Debug)]
pub(crate) struct Alone;

impl Beside for Alone {
    fn watched(&self) -> Vec<Watched<'_>> {
        Vec::new()
    }

    fn advance(&mut self, _: &mut Hub, _: &[bool]) -> Result<(), Stop> {
        Ok(())
    }
}

impl Child {
    /// Starts a process in its own session.
    pub(crate) fn start(start: Start<'_>) -> std::io::Result<Self> {
        let (stdout, stdout_end) = output_pipe()?;
        let (stderr, stderr_end) = output_pipe()?;
        let pid = sys::spawn(start.launch, stdout_end, stderr_end)?;
        Ok(Self {
            pid,
            stdout: Stream::new(stdout, start.cap),
            stderr: Stream::new(stderr, start.cap),
            kill_at_cap: start.kill_at_cap,
        })
    }

    /// Waits once: moves its output and whatever goes on beside. Answers its end when it has ended.
    pub(crate) fn turn(
        &mut self,
        hub: &mut Hub,
        beside: &mut dyn Beside,
        until: Option<Instant>,
    ) -> Result<Option<End>, Stop> {
        let mut watched = Vec::with_capacity(4);
        watched.extend(self.stdout.pipe.as_ref().map(Watched::readable));
        watched.extend(self.stderr.pipe.as_ref().map(Watched::readable));
        let own = watched.len();
        watched.extend(beside.watched());
        hub.wait(&mut watched, until)?;
        let ready: Vec<bool> = watched.iter().map(|one| one.ready).collect();
        drop(watched);
        let mut place = ready[..own].iter();
        for stream in [&mut self.stdout, &mut self.stderr] {
            if stream.pipe.is_some() && place.next() == Some(&true) {
                stream.read_once();
            }
        }
        beside.advance(hub, &ready[own..])?;
        Ok(hub.take_end(self.pid))
    }

    /// Whether it wrote more than it may.
    fn floods(&self) -> bool {
        self.kill_at_cap && (self.stdout.flooded() || self.stderr.flooded())
    }

    /// Supervises until the process has ended or `deadline`, kills what it left behind, and collects the last output.
    pub(crate) fn finish(
        &mut self,
        hub: &mut Hub,
        beside: &mut dyn Beside,
        deadline: Instant,
        facts: &mut CallFacts,
    ) -> Result<Ended, Stop> {
        let mut sample = Instant::now() + SAMPLE;
        let mut timed_out = false;
        let mut killed: Option<Instant> = None;
        let (mut end, at) = loop {
            let until = if killed.is_some() { sample } else { sample.min(deadline) };
            let end = self.turn(hub, beside, Some(until))?;
            // Read before anything is cleaned up: cleaning may outlast the deadline.
            let now = Instant::now();
            timed_out |= killed.is_none() && (now >= deadline || hub.stop_asked());
            if let Some(end) = end {
                break (end, now);
            }
            if now >= sample {
                facts.count_tasks();
                sample = now + SAMPLE;
            }
            if (timed_out || self.floods()) && killed.is_none() {
                facts.code_ended(true);
                tree::kill(hub)?;
                killed = Some(now);
            }
            if killed.is_some_and(|at| now >= at + tree::KILL_BUDGET) {
                return Err(Stop::Fault("the call's process does not die".into()));
            }
        };
        if killed.is_none() {
            facts.code_ended(end != End::Exited(0));
        }
        tree::clear(hub)?;
        // Every writer that can write is gone: what the pipes hold is all there will be.
        self.stdout.read_to_end();
        self.stderr.read_to_end();
        if self.floods() && !timed_out {
            // It ended before PID 1 had read what it wrote. Whether that was too much must not hang on who was quicker.
            end = End::Signaled(Signal::KILL.as_raw());
        }
        Ok(Ended { end, timed_out, at })
    }
}

/// A pipe whose reading end never blocks; the child's end is an ordinary one.
fn output_pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&read)?;
    rustix::fs::fcntl_setfl(&read, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok((read, write))
}

/// One captured stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pipe: Option<OwnedFd>,
    cap: usize,
    captured: Captured,
}

impl Stream {
    fn new(pipe: OwnedFd, cap: usize) -> Self {
        Self {
            pipe: Some(pipe),
            cap,
            captured: Captured::default(),
        }
    }

    /// What was captured.
    pub(crate) fn take(&mut self) -> Captured {
        std::mem::take(&mut self.captured)
    }

    fn flooded(&self) -> bool {
        self.captured.truncated()
    }

    /// Moves what is there, and answers whether there may be more.
    pub(crate) fn read_once(&mut self) -> bool {
        let mut chunk = [0; 64 << 10];
        let Some(pipe) = &self.pipe else { return false };
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => self.pipe = None,
            Ok(read) => {
                let room = self.cap.saturating_sub(self.captured.bytes.len());
                self.captured.bytes.extend_from_slice(&chunk[..read.min(room)]);
                self.captured.produced += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => self.pipe = None,
        }
        self.pipe.is_some()
    }

    /// Forgets what was captured, and what waits to be.
    pub(crate) fn discard(&mut self) {
        self.read_to_end();
        self.captured = Captured::default();
    }

    /// The end to read from, while it is open.
    pub(crate) fn pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref()
    }

    /// Moves all there is. A write end may have been sent through a socket to where no process of the call holds it: nothing
    /// is waited for.
    pub(crate) fn read_to_end(&mut self) {
        while self.read_once() {}
    }
}
