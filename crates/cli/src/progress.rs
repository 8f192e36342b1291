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

/// The signals by which a user ends a command, for one that would leave something behind if it simply ended.
#[derive(Debug)]
pub(crate) struct Signals(Watched);

#[derive(Debug)]
enum Watched {
    None,
    Interrupt(Signal),
    Both([Signal; 2]),
}

impl Signals {
    /// Watches for them if `wanted`; otherwise they end the process, as always.
    ///
    /// # Errors
    /// The system lets nobody watch.
    pub(crate) fn watched(wanted: bool) -> Result<Self, Failure> {
        if !wanted {
            return Ok(Self(Watched::None));
        }
        Ok(Self(Watched::Both([
            one(SignalKind::interrupt())?,
            one(SignalKind::terminate())?,
        ])))
    }

    /// Watches for interrupts only; every other signal does what it always does.
    ///
    /// # Errors
    /// As [`Signals::watched`].
    pub(crate) fn interrupts() -> Result<Self, Failure> {
        one(SignalKind::interrupt()).map(|one| Self(Watched::Interrupt(one)))
    }

    /// The next one; never, where none is watched.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Watched::None => std::future::pending().await,
            Watched::Interrupt(interrupt) => drop(interrupt.recv().await),
            Watched::Both([interrupt, terminate]) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
        }
    }

    /// Forgets one that came and was not waited for: it was about something that has ended since.
    pub(crate) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = std::future::ready(()) => {}
        }
    }

    /// Lets the work come to its end although a signal came, because only then it clears up after itself; whether one came.
    /// A second signal gives the work up.
    pub(crate) async fn see_through<T>(&mut self, work: impl Future<Output = T>) -> (Option<T>, bool) {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return (Some(done), false),
            () = self.next() => {}
        }
        tokio::select! {
            biased;
            done = &mut work => (Some(done), true),
            () = self.next() => (None, true),
        }
    }
}

fn one(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::not_ready(&error))
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
            let mut signals = Signals::interrupts().unwrap();
            let mut other = Signals::interrupts().unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT).unwrap();
            // Seen by one is seen by all.
            other.next().await;
            signals.forget().await;
            let next = tokio::time::timeout(Duration::from_millis(50), signals.next()).await;
            assert!(next.is_err(), "it is still told");
        });
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
