//! What is being done and for how long, on a terminal, while there is nothing else to show; and signals, while there is
//! something to clear away.

use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use plimsoll_core::vars::Lookup;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::failure::Failure;
use crate::streams;

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often the seconds move.
const EVERY: Duration = Duration::from_millis(100);

/// Back to the first column, and away with what stands there.
const ERASE: &str = "\r\u{1b}[K";

/// The line that shows what is being done, if anybody can see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    shown: bool,
}

impl Progress {
    /// Shown on a terminal that can erase a line, unless `quiet`.
    pub(crate) fn new(quiet: bool, lookup: &dyn Lookup) -> Self {
        let dumb = lookup.get("TERM").is_none_or(|term| term == "dumb");
        Self {
            shown: !quiet && !dumb && io::stderr().is_terminal(),
        }
    }

    /// Waits for the work, and says meanwhile what is being done. Nothing of it is left on the terminal afterwards.
    pub(crate) async fn during<T>(self, what: &str, work: impl Future<Output = T>) -> T {
        if !self.shown {
            return work.await;
        }
        let mut work = pin!(work);
        let begun = Instant::now();
        let mut ticks = interval_at(begun + PATIENCE, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut line = Line(false);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = ticks.tick() => line.show(&said(what, begun.elapsed())),
            }
        }
    }
}

fn said(what: &str, elapsed: Duration) -> String {
    let tenths = elapsed.as_millis() / 100;
    format!("{ERASE}plimsoll: {what} ({}.{} s)", tenths / 10, tenths % 10)
}

/// Whether something stands on the terminal that has to go.
struct Line(bool);

impl Line {
    fn show(&mut self, text: &str) {
        self.0 = true;
        streams::write_own(text);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.0 {
            streams::write_own(ERASE);
        }
    }
}

/// What a signal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A key of the user's, about what is going on.
    Interrupt,
    /// The whole command: somebody ends it, or the terminal has gone.
    End,
}

/// The signals by which a user ends a command, for one that would leave something behind if it simply ended.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
    ended: bool,
}

impl Signals {
    /// Watches for them if `wanted`; otherwise they end the process, as always. A hangup that whoever started the command has
    /// it ignore, as `nohup` does, stays ignored.
    ///
    /// # Errors
    /// The system lets nobody watch.
    pub(crate) fn watched(wanted: bool) -> Result<Self, Failure> {
        if !wanted {
            return Ok(Self::default());
        }
        let hangup = if hangup_is_ignored() {
            None
        } else {
            Some(one(SignalKind::hangup())?)
        };
        Ok(Self {
            interrupt: Some(one(SignalKind::interrupt())?),
            terminate: Some(one(SignalKind::terminate())?),
            hangup,
            ended: false,
        })
    }

    /// The next one; never, where none is watched.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            () = either(&mut self.terminate, &mut self.hangup) => {}
            () = came(&mut self.interrupt) => return Told::Interrupt,
        }
        self.has_come_to_an_end();
        Told::End
    }

    /// The next one about the whole command.
    pub(crate) async fn end(&mut self) {
        either(&mut self.terminate, &mut self.hangup).await;
        self.has_come_to_an_end();
    }

    /// A terminal that goes hangs up more than once, by the kernel and by its shell; only the first time means something.
    fn has_come_to_an_end(&mut self) {
        self.hangup = None;
        self.ended = true;
    }

    /// Whether one about the whole command has been told.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Forgets an interrupt that came and was not waited for: it was about something that has ended since.
    pub(crate) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = came(&mut self.interrupt) => {}
            () = std::future::ready(()) => {}
        }
    }

    /// Interrupts are told no more.
    pub(crate) fn ignore_interrupts(&mut self) {
        self.interrupt = None;
    }

    /// Lets the work come to its end although a signal came, because only then it clears up after itself; whether one came.
    /// A second signal gives the work up.
    pub(crate) async fn see_through<T>(&mut self, work: impl Future<Output = T>) -> (Option<T>, bool) {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return (Some(done), false),
            _ = self.next() => {}
        }
        tokio::select! {
            biased;
            done = &mut work => (Some(done), true),
            _ = self.next() => (None, true),
        }
    }
}

fn one(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::not_ready(&error))
}

async fn came(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

async fn either(one: &mut Option<Signal>, other: &mut Option<Signal>) {
    tokio::select! {
        () = came(one) => {}
        () = came(other) => {}
    }
}

/// Where the system does not say, it is not.
fn hangup_is_ignored() -> bool {
    fs_err::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

/// Whether the first signal, which is the hangup, is in the set of those that this status of a process calls ignored.
fn ignores_hangup(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_done_and_for_how_long() {
        let text = said("running 2 steps", Duration::from_millis(12_345));
        assert_eq!(text, "\r\u{1b}[Kplimsoll: running 2 steps (12.3 s)");
    }

    #[test]
    fn nobody_is_shown_anything_but_on_a_terminal() {
        let environment = plimsoll::env::Environment::from_pairs([("TERM", "dumb")]);
        assert!(!Progress::new(false, &environment).shown);
        let environment = plimsoll::env::Environment::from_pairs([("TERM", "xterm")]);
        assert!(!Progress::new(true, &environment).shown);
    }

    #[test]
    fn a_signal_about_what_has_ended_is_forgotten() {
        let runtime = crate::runtime(true).unwrap();
        runtime.block_on(async {
            // Only them, because the tests beside this one send others.
            let interrupts = || Signals {
                interrupt: Some(one(SignalKind::interrupt()).unwrap()),
                ..Signals::default()
            };
            let (mut signals, mut other) = (interrupts(), interrupts());
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT).unwrap();
            // Seen by one is seen by all.
            assert_eq!(other.next().await, Told::Interrupt);
            signals.forget().await;
            let next = tokio::time::timeout(Duration::from_millis(50), signals.next()).await;
            assert!(next.is_err(), "it is still told");
            assert!(!signals.has_ended());
        });
    }

    #[test]
    fn a_terminal_that_goes_is_told_once() {
        let runtime = crate::runtime(true).unwrap();
        runtime.block_on(async {
            // Whoever runs the tests may have it ignored.
            let mut signals = Signals {
                hangup: Some(one(SignalKind::hangup()).unwrap()),
                ..Signals::default()
            };
            let hang_up = || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP);
            hang_up().unwrap();
            assert_eq!(signals.next().await, Told::End);
            assert!(signals.has_ended());
            hang_up().unwrap();
            let next = tokio::time::timeout(Duration::from_millis(50), signals.next()).await;
            assert!(next.is_err(), "it is told again");
        });
    }

    #[test]
    fn a_hangup_that_is_to_be_ignored_is() {
        let status = |set: &str| {
            format!("Name:\tplimsoll\nSigBlk:\t0000000000000001\nSigIgn:\t{set}\nSigCgt:\t0000000000000001\n")
        };
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup(""));
    }

    #[test]
    fn work_that_is_not_interrupted_ends_as_it_would() {
        let runtime = crate::runtime(true).unwrap();
        let ended = runtime.block_on(async {
            let mut signals = Signals::watched(true).unwrap();
            signals
                .see_through(Progress { shown: false }.during("", async { 7 }))
                .await
        });
        assert_eq!(ended, (Some(7), false));
    }
}
