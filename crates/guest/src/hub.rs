//! What PID 1 waits for: the host, its children, the clock. One place polls; everything else asks it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::{ERROR_TEXT_CAP, HEARTBEAT_MS};
use plimsoll_guest_messages::{Direction, End, Fault, GuestMessage, HostMessage, Intake, Open, Plan, Sender};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Rlimit, WaitOptions, wait};

use crate::facts::own_limits;
use crate::sys::{self, OwnDeath};

/// How often PID 1 puts off its own death.
const POSTPONE_EVERY: Duration = Duration::from_millis(300);

/// Why PID 1 ends.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The host closed the input, or it broke: the sandbox has no owner any more.
    HostGone,
    /// The host wrote what no host of this version writes.
    Violation(String),
    /// PID 1 cannot do its work.
    Fault(String),
}

impl Stop {
    pub(crate) fn fault(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Fault(format!("{what}: {error}"))
    }
}

fn next_beat() -> Instant {
    Instant::now() + Duration::from_millis(HEARTBEAT_MS)
}

/// A descriptor to wait for, and whether it became ready.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
    pub(crate) ready: bool,
}

impl<'a> Watched<'a> {
    pub(crate) fn readable(fd: &'a OwnedFd) -> Self {
        Self::new(fd, PollFlags::IN)
    }

    pub(crate) fn writable(fd: &'a OwnedFd) -> Self {
        Self::new(fd, PollFlags::OUT)
    }

    fn new(fd: &'a OwnedFd, events: PollFlags) -> Self {
        Self {
            fd: fd.as_fd(),
            events,
            ready: false,
        }
    }
}

/// PID 1's connections to the rest of the world.
#[derive(Debug)]
pub(crate) struct Hub {
    intake: Intake,
    inbox: VecDeque<HostMessage>,
    sender: Option<Sender>,
    outbox: Vec<u8>,
    sent: usize,
    signals: OwnedFd,
    next_beat: Option<Instant>,
    ended: Vec<(Pid, End)>,
    session: bool,
    /// PID 1's own, before any guest code ran.
    limits: Vec<Rlimit>,
    kept: Vec<Pid>,
    stop_asked: bool,
    own_death: Option<OwnDeath>,
    /// When PID 1's death was last put off; `None` while it rests.
    postponed: Option<Instant>,
}

impl Hub {
    /// Takes over standard input and output, and SIGCHLD.
    pub(crate) fn new() -> std::io::Result<Self> {
        let stdout = rustix::stdio::stdout();
        let flags = rustix::fs::fcntl_getfl(stdout)?;
        rustix::fs::fcntl_setfl(stdout, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self {
            intake: Intake::new(),
            inbox: VecDeque::new(),
            sender: None,
            outbox: Vec::new(),
            sent: 0,
            signals: sys::child_signals()?,
            next_beat: None,
            ended: Vec::new(),
            session: false,
            limits: own_limits(),
            kept: Vec::new(),
            stop_asked: false,
            own_death: OwnDeath::set(),
            postponed: Some(Instant::now()),
        })
    }

    /// Waits for the opening frame.
    pub(crate) fn opened(&mut self) -> Result<Open, Stop> {
        loop {
            match self.inbox.pop_front() {
                Some(HostMessage::Open(open)) => {
                    self.sender = Some(Sender::new(open.key.clone(), Direction::ToHost));
                    return Ok(open);
                }
                Some(HostMessage::Run(_) | HostMessage::Ping | HostMessage::Stop) => {
                    return Err(Stop::Violation("something else came before the opening".into()));
                }
                None => self.wait(&mut [], None)?,
            }
        }
    }

    /// The plan that has come, if one has.
    pub(crate) fn plan(&mut self) -> Result<Option<Plan>, Stop> {
        match self.inbox.pop_front() {
            Some(HostMessage::Run(plan)) => Ok(Some(plan)),
            Some(HostMessage::Open(_) | HostMessage::Ping | HostMessage::Stop) => {
                Err(Stop::Violation("the sandbox is open already".into()))
            }
            None => Ok(None),
        }
    }

    /// Queues a message; it leaves while PID 1 waits.
    pub(crate) fn send(&mut self, message: &GuestMessage) -> Result<(), Stop> {
        let body = message.encode().map_err(|error| Stop::fault("answer", error))?;
        self.send_encoded(message.kind(), &body)
    }

    /// Queues a message whose body is encoded already.
    pub(crate) fn send_encoded(&mut self, kind: u8, body: &[u8]) -> Result<(), Stop> {
        let Some(sender) = &mut self.sender else {
            return Ok(());
        };
        let frame = sender.frame(kind, body).map_err(|error| Stop::fault("answer", error))?;
        if self.outbox.is_empty() {
            self.outbox = frame;
        } else {
            self.outbox.extend_from_slice(&frame);
        }
        self.flush()
    }

    /// Says why PID 1 gives up, and stays until that is said, two seconds at most.
    pub(crate) fn say_fault(&mut self, text: &str) {
        let text = text[..text.floor_char_boundary(ERROR_TEXT_CAP)].to_owned();
        let until = Instant::now() + Duration::from_secs(2);
        let mut outcome = self.send(&GuestMessage::Fault(Fault { text }));
        while outcome.is_ok() && !self.outbox.is_empty() && Instant::now() < until {
            outcome = self.wait(&mut [], Some(until));
        }
    }

    /// A call begins: heartbeats from now on, and PID 1 does not rest.
    pub(crate) fn begin_call(&mut self) -> Result<(), Stop> {
        self.stop_asked = false;
        self.next_beat = Some(next_beat());
        if self.postponed.is_none() {
            self.put_off_death()?;
        }
        Ok(())
    }

    /// Whether the host wants the running call's code to end.
    pub(crate) const fn stop_asked(&self) -> bool {
        self.stop_asked
    }

    /// No process of the guest runs, so none can stop PID 1: it need not prove any more that it lives, and may be frozen.
    pub(crate) fn rest(&mut self) -> Result<(), Stop> {
        if let Some(own_death) = &self.own_death {
            own_death.call_off().map_err(|error| Stop::fault("timer", error))?;
        }
        self.postponed = None;
        Ok(())
    }

    /// This sandbox is a session's: processes of earlier calls may live whenever another is started.
    pub(crate) const fn is_sessions(&mut self) {
        self.session = true;
    }

    /// Whether no process of the guest can be alive while PID 1 starts one.
    pub(crate) const fn is_alone(&self) -> bool {
        !self.session
    }

    /// Whether the limits on PID 1 are those that it started with. Nobody sets changed ones back, so every later project is told.
    pub(crate) fn has_its_limits(&self) -> bool {
        own_limits() == self.limits
    }

    /// This child stays when a call's processes end.
    pub(crate) fn keep(&mut self, pid: Pid) {
        self.kept.push(pid);
    }

    /// This child does not stay any more.
    pub(crate) fn let_go(&mut self, pid: Pid) {
        self.kept.retain(|kept| *kept != pid);
    }

    /// Children that stay and have not ended.
    pub(crate) fn kept(&self) -> &[Pid] {
        &self.kept
    }

    /// A call has ended: no more heartbeats.
    pub(crate) fn end_call(&mut self) {
        self.next_beat = None;
    }

    /// Waits until a watched descriptor is ready, a child ended, the host spoke, or `until`. Spurious returns happen.
    pub(crate) fn wait(&mut self, watched: &mut [Watched<'_>], until: Option<Instant>) -> Result<(), Stop> {
        let due = self.postponed.map(|at| at + POSTPONE_EVERY);
        let wake = [until, self.next_beat, due].into_iter().flatten().min();
        let timeout = wake.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 3_600,
                tv_nsec: 0,
            })
        });
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        let mut fds = Vec::with_capacity(watched.len() + 3);
        fds.push(PollFd::from_borrowed_fd(stdin, PollFlags::IN));
        let out = if self.outbox.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        fds.push(PollFd::from_borrowed_fd(stdout, out));
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        fds.extend(watched.iter().map(|one| PollFd::from_borrowed_fd(one.fd, one.events)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Stop::fault("poll", error)),
        }
        let happened: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        for (one, events) in watched.iter_mut().zip(&happened[3..]) {
            one.ready = !events.is_empty();
        }
        if !happened[2].is_empty() {
            self.reap();
        }
        if happened[1].intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(Stop::HostGone);
        }
        self.flush()?;
        if !happened[0].is_empty() {
            self.listen(stdin)?;
        }
        self.alive()?;
        if self.next_beat.is_some_and(|at| at <= Instant::now()) {
            self.next_beat = Some(next_beat());
            self.send(&GuestMessage::Heartbeat)?;
        }
        Ok(())
    }

    /// Puts off PID 1's own death where that is due. For work between two waits that may take its time.
    pub(crate) fn alive(&mut self) -> Result<(), Stop> {
        match self.postponed {
            Some(at) if at.elapsed() >= POSTPONE_EVERY => self.put_off_death(),
            _ => Ok(()),
        }
    }

    fn put_off_death(&mut self) -> Result<(), Stop> {
        if let Some(own_death) = &self.own_death {
            own_death.postpone().map_err(|error| Stop::fault("timer", error))?;
        }
        self.postponed = Some(Instant::now());
        Ok(())
    }

    /// Collects every child that has ended, adopted ones included. Answers false when no child is left.
    pub(crate) fn reap(&mut self) -> bool {
        let mut scratch = [0; 1024];
        while rustix::io::read(&self.signals, &mut scratch).is_ok_and(|read| read > 0) {}
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let end = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => End::Exited(code),
                        (None, Some(signal)) => End::Signaled(signal),
                        (None, None) => continue,
                    };
                    self.let_go(pid);
                    self.ended.push((pid, end));
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// How this child ended, if it has. Ends of processes that nobody asks for are forgotten.
    pub(crate) fn take_end(&mut self, pid: Pid) -> Option<End> {
        let found = self.ended.iter().find(|(one, _)| *one == pid).map(|(_, end)| *end);
        self.ended.clear();
        found
    }

    /// Nobody asks any more how processes ended that are gone.
    pub(crate) fn forget_ends(&mut self) {
        self.ended.clear();
    }

    fn flush(&mut self) -> Result<(), Stop> {
        while self.sent < self.outbox.len() {
            match rustix::io::write(rustix::stdio::stdout(), &self.outbox[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Stop::HostGone),
            }
        }
        self.outbox = Vec::new();
        self.sent = 0;
        Ok(())
    }

    fn listen(&mut self, stdin: BorrowedFd<'_>) -> Result<(), Stop> {
        let mut chunk = zeroize::Zeroizing::new(vec![0; 64 << 10]);
        match rustix::io::read(stdin, chunk.as_mut_slice()) {
            Ok(0) => return Err(Stop::HostGone),
            Ok(read) => self.intake.feed(&chunk[..read]),
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(_) => return Err(Stop::HostGone),
        }
        while let Some(message) = self.intake.next_message().map_err(|e| Stop::Violation(e.to_string()))? {
            match message {
                HostMessage::Ping => {
                    self.send(&GuestMessage::Heartbeat)?;
                    continue;
                }
                HostMessage::Stop => {
                    self.stop_asked = true;
                    continue;
                }
                HostMessage::Open(_) | HostMessage::Run(_) => {}
            }
            self.inbox.push_back(message);
            // The opening frame and the first plan may come together; beyond that a host waits for its answer.
            if self.inbox.len() > 2 {
                return Err(Stop::Violation("plans came faster than they are answered".into()));
            }
        }
        Ok(())
    }
}
