//! Snippets: a `node` that is started early, waits, and is given one program.
//!
//! A program counts as started from its first byte that was handed over, whatever `node` says: code of an earlier call may
//! have replaced what `node` preloads, and then it says what that code wants. So a program is handed over only to a `node`
//! that waits, and until then it is certain that nothing of it ran.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use plimsoll_guest_messages::limits::PROTOCOL_VERSION;
use plimsoll_guest_messages::{End, GuestMessage, Open, Ready, SnippetEnd, SnippetPlan};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::beneath::replace;
use crate::child::{Beside, Child, Ended, NotStarted, Start, Untaken, deadline};
use crate::environment::Environment;
use crate::facts::CallFacts;
use crate::hub::{Hub, Stop, Watched};
use crate::sys::Launch;

const BOOTSTRAP: &str = include_str!("../js/snippet_bootstrap.cjs");

/// `node` preloads a file or nothing. It stays, because every Worker of the program preloads it again (to no effect).
/// The root file system is read-only, `/tmp` belongs to the program. In a session a thread of a kept interpreter may replace
/// it, so nothing is believed of what it says but that `node` may be given its program.
const BOOTSTRAP_PATH: &str = "/dev/shm/.plimsoll-snippet.cjs";

/// A `node` that has been started and was not given a program yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    node: Child,
    feed: Feed,
}

impl Waiting {
    /// Starts `node`, found by the path that guest code sees, in this directory or in PID 1's own.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(crate) fn start(hub: &Hub, open: &Open, directory: Option<&str>) -> Result<Self, NotStarted> {
        let environment = Environment::of_image(&open.env);
        let started = replace(BOOTSTRAP_PATH, BOOTSTRAP.as_bytes())
            .map_err(|error| NotStarted {
                words: format!("{BOOTSTRAP_PATH} cannot be written: {error}"),
                for_want: false,
            })
            .and_then(|()| {
                Self::spawn(hub, open, &environment, directory).map_err(|error| NotStarted::refused(directory, &error))
            });
        started.map_err(|cause| NotStarted {
            words: format!("node cannot be started: {}", cause.words),
            ..cause
        })
    }

    fn spawn(hub: &Hub, open: &Open, environment: &Environment, directory: Option<&str>) -> std::io::Result<Self> {
        let (stdin, program) = pipe_with(PipeFlags::CLOEXEC)?;
        let (channel, node_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        for fd in [&program, &channel] {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let node = Child::start(Start {
            launch: Launch {
                program: "node",
                name: "node",
                arguments: &["--require", BOOTSTRAP_PATH, "-"],
                environment: environment.as_slice(),
                directory,
                stdin: Some(stdin),
                extra: &[node_end.as_fd()],
                unseen: hub.is_alone(),
                to_be_stopped: false,
            },
            cap: usize::try_from(open.output_cap).unwrap_or(usize::MAX),
            kill_at_cap: false,
        })?;
        Ok(Self {
            node,
            feed: Feed {
                program: Some(program),
                channel: Some(channel),
                text: None,
                written: 0,
                prelude_written: 0,
                prelude_done: false,
                waits: false,
                told_ready: false,
                started: false,
            },
        })
    }

    /// Waits for the one plan. Tells the host when `node` waits.
    pub(crate) fn plan(&mut self, hub: &mut Hub) -> Result<SnippetPlan, Stop> {
        loop {
            match hub.plan()? {
                Some(plimsoll_guest_messages::Plan::Snippet(plan)) => return Ok(plan),
                Some(_) => return Err(Stop::Violation("a sandbox for a snippet takes nothing else".into())),
                None => {}
            }
            if let Some(end) = self.node.turn(hub, &mut self.feed, None)? {
                return Err(Stop::Fault(format!(
                    "node ended before it was given a program: {}",
                    words(end)
                )));
            }
        }
    }

    /// Hands the program over and sees it through. The inner error says why `node` was never given any of it.
    pub(crate) fn run(
        mut self,
        hub: &mut Hub,
        plan: SnippetPlan,
        began: Instant,
    ) -> Result<Result<SnippetEnd, Untaken>, Stop> {
        let deadline = deadline(began, plan.timeout_ms);
        let mut facts = CallFacts::begin();
        hub.begin_call()?;
        self.feed.text = Some((plan.program.into_bytes(), plan.prelude.into_bytes()));
        self.feed.advance_text(hub)?;
        let Ended { end, timed_out, at } = self.node.finish(hub, &mut self.feed, deadline, &mut facts)?;
        hub.end_call();
        if !self.feed.started {
            return Ok(Err(if timed_out {
                Untaken::Late
            } else {
                let words = format!("node ended before it took the program: {}", words(end));
                Untaken::Gone(NotStarted::ended(words))
            }));
        }
        Ok(Ok(SnippetEnd {
            end,
            timed_out,
            stdout: self.node.stdout.take(),
            stderr: self.node.stderr.take(),
            duration_ms: u64::try_from((at - began).as_millis()).unwrap_or(u64::MAX),
            limits: facts.read(),
        }))
    }

    /// A `node` whose host waits for the end of a program only, and not for `node` itself.
    pub(crate) fn in_session(mut self) -> Self {
        self.feed.told_ready = true;
        self
    }
}

fn words(end: End) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Signaled(signal) => format!("signal {signal}"),
    }
}

/// What goes to `node`: the program on its standard input, the prelude on the channel that it speaks on.
#[derive(Debug)]
struct Feed {
    program: Option<OwnedFd>,
    channel: Option<OwnedFd>,
    text: Option<(Vec<u8>, Vec<u8>)>,
    written: usize,
    prelude_written: usize,
    prelude_done: bool,
    /// `node` says that it waits.
    waits: bool,
    told_ready: bool,
    /// Something of the text was handed over, and the host knows.
    started: bool,
}

impl Beside for Feed {
    fn watched(&self) -> Vec<Watched<'_>> {
        let mut watched = Vec::with_capacity(3);
        if let Some(channel) = self.channel.as_ref().filter(|_| !self.waits) {
            watched.push(Watched::readable(channel));
        }
        if self.waits && self.text.is_some() {
            watched.extend(self.program.as_ref().map(Watched::writable));
            watched.extend(
                self.channel
                    .as_ref()
                    .filter(|_| !self.prelude_done)
                    .map(Watched::writable),
            );
        }
        watched
    }

    fn advance(&mut self, hub: &mut Hub, ready: &[bool]) -> Result<(), Stop> {
        if ready.contains(&true) {
            self.hear(hub)?;
            self.advance_text(hub)?;
        }
        Ok(())
    }
}

impl Feed {
    /// Reads whether `node` waits.
    fn hear(&mut self, hub: &mut Hub) -> Result<(), Stop> {
        if !self.waits {
            let mut byte = [0; 1];
            match self
                .channel
                .as_ref()
                .map(|channel| rustix::io::read(channel, &mut byte))
            {
                Some(Ok(1)) => self.waits = true,
                Some(Ok(_)) => self.channel = None,
                Some(Err(Errno::INTR | Errno::AGAIN)) | None => {}
                Some(Err(_)) => self.channel = None,
            }
        }
        if self.waits && !self.told_ready {
            self.told_ready = true;
            hub.send(&GuestMessage::Ready(Ready {
                version: PROTOCOL_VERSION,
            }))?;
        }
        Ok(())
    }

    /// Writes what fits to a `node` that waits, and closes each end when its text is complete or its reader gone.
    fn advance_text(&mut self, hub: &mut Hub) -> Result<(), Stop> {
        let Some((program, prelude)) = self.text.as_ref().filter(|_| self.waits) else {
            return Ok(());
        };
        // The prelude first: node reads it only after the end of its program, which must not wait for us then.
        if !self.prelude_done && !write_some(self.channel.as_ref(), prelude, &mut self.prelude_written) {
            self.prelude_done = true;
            if let Some(channel) = self.channel.take() {
                // A reader that is gone is no error of ours.
                let _gone = rustix::net::shutdown(channel, rustix::net::Shutdown::Write);
            }
        }
        if !write_some(self.program.as_ref(), program, &mut self.written) {
            self.program = None;
        }
        // An empty program is handed over by its end.
        if !self.started && (self.written > 0 || self.prelude_written > 0 || program.is_empty()) {
            self.started = true;
            hub.send(&GuestMessage::Started)?;
        }
        Ok(())
    }
}

/// Answers false when there is nothing more to write.
fn write_some(fd: Option<&OwnedFd>, text: &[u8], written: &mut usize) -> bool {
    let Some(fd) = fd else { return false };
    while *written < text.len() {
        match rustix::io::write(fd, &text[*written..]) {
            Ok(count) => *written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
    false
}
