//! What a history came to, and what in it must not be.

use std::fmt;
use std::time::Duration;

use plimsoll_client::Refusal;

use crate::chance::mix;
use crate::faults::Counts;
use crate::ledger::{Answer, Ledger, Run};
use crate::plan::Plan;

/// Faults of a history that are told in words; the others are only counted.
const TOLD: usize = 5;

/// Counts of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that came back with a checked result.
    pub results: u64,
    /// Of these, calls that another daemon had refused before.
    pub moved: u64,
    /// Calls of which the caller was told that nothing ran.
    pub refused: u64,
    /// Of these, calls that every daemon they were sent to refused for capacity.
    pub full: u64,
    /// Of these, calls that no daemon of the pool could take.
    pub homeless: u64,
    /// Calls of which the caller was told that they may have run.
    pub may_have_run: u64,
    /// Of these, calls that did run.
    pub lost_answers: u64,
    /// Runs that were begun more than once.
    pub doubles: u64,
    /// Calls whose answer says something that is not so, other than doubles.
    pub untrue: u64,
    /// Calls without exactly one answer.
    pub unaccounted: u64,
}

/// A history.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Calls in all.
    pub runs: usize,
    /// Daemons in all.
    pub daemons: usize,
    /// How the calls ended.
    pub tally: Tally,
    /// What went wrong on the way.
    pub faults: Counts,
    /// Simulated time from the first call to the last answer.
    pub simulated: Duration,
    /// Time it took here.
    pub took: Duration,
    /// Stands for every call's answer and every run's place: equal histories have equal ones.
    pub fingerprint: u64,
    /// The first violations, in words.
    pub violations: Vec<String>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, ledger: &Ledger, faults: Counts, simulated: Duration, took: Duration) -> Self {
        let mut report = Self {
            seed: plan.seed,
            runs: plan.runs,
            daemons: plan.daemons(),
            tally: Tally::default(),
            faults,
            simulated,
            took,
            fingerprint: plan.seed,
            violations: Vec::new(),
        };
        for (index, run) in ledger.runs().iter().enumerate() {
            report.enter(index, run);
        }
        let Counts {
            crashes,
            partitions,
            held,
            slow,
            fallen,
        } = faults;
        for count in [crashes, partitions, held, slow, fallen] {
            report.fingerprint = mix(report.fingerprint ^ count);
        }
        report
    }

    /// Whether no call ran twice, every answer is true, and every call has one.
    pub const fn holds(&self) -> bool {
        self.tally.doubles == 0 && self.tally.untrue == 0 && self.tally.unaccounted == 0
    }

    fn enter(&mut self, index: usize, run: &Run) {
        let tally = &mut self.tally;
        if run.begun > 1 {
            tally.doubles += 1;
            self.violations
                .push(format!("run {index} was begun {} times", run.begun));
        }
        let mut untrue = false;
        match run.answer {
            Some(Answer::Result { daemon, refusals }) => {
                tally.results += 1;
                tally.moved += u64::from(refusals > 0);
                untrue = run.begun == 0 || run.on != Some(daemon);
            }
            Some(Answer::Refused { reason, refusals }) => {
                tally.refused += 1;
                tally.full += u64::from(refusals > 0 && reason == Refusal::Capacity);
                tally.homeless += u64::from(refusals == 0);
                untrue = run.begun > 0;
            }
            Some(Answer::MayHaveRun { .. }) => {
                tally.may_have_run += 1;
                tally.lost_answers += u64::from(run.begun > 0);
            }
            None => {}
        }
        if run.answers != 1 {
            tally.unaccounted += 1;
            self.violations.push(format!("run {index} has {} answers", run.answers));
        }
        // A double makes other answers untrue; it is one violation and not two.
        if untrue && run.begun <= 1 {
            tally.untrue += 1;
            self.violations
                .push(format!("run {index} is not what its caller was told: {run:?}"));
        }
        self.violations.truncate(TOLD);
        self.fingerprint = mix(self.fingerprint ^ code(run));
    }
}

/// A number for a word.
fn word(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// A number for what became of a call.
fn code(run: &Run) -> u64 {
    let place = |place: usize| u64::try_from(place).unwrap_or(u64::MAX) & 0xffff_ffff;
    let answer = match run.answer {
        None => 0,
        Some(Answer::Result { daemon, refusals }) => 1 | place(daemon) << 8 | place(refusals) << 40,
        Some(Answer::Refused { reason, refusals }) => 2 | word(reason.as_str()) << 8 | place(refusals) << 40,
        Some(Answer::MayHaveRun { kind }) => 3 | word(&format!("{kind:?}")) << 8,
    };
    mix(answer) ^ mix(u64::from(run.begun) | run.on.map_or(0, |on| place(on) + 1) << 32)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tally, faults) = (&self.tally, &self.faults);
        writeln!(f, "{} runs on {} daemons, seed {}", self.runs, self.daemons, self.seed)?;
        writeln!(
            f,
            "  results         {} ({} after a refusal elsewhere)",
            tally.results, tally.moved
        )?;
        writeln!(
            f,
            "  nothing ran     {} ({} everywhere full, {} without a daemon)",
            tally.refused, tally.full, tally.homeless
        )?;
        writeln!(
            f,
            "  may have run    {} ({} did)",
            tally.may_have_run, tally.lost_answers
        )?;
        writeln!(
            f,
            "  faults          {} crashes, {} partitions, {} links held, {} slow nodes, {} fallen tiers",
            faults.crashes, faults.partitions, faults.held, faults.slow, faults.fallen
        )?;
        writeln!(
            f,
            "  double runs     {}, untrue answers {}, unaccounted {}",
            tally.doubles, tally.untrue, tally.unaccounted
        )?;
        write!(
            f,
            "  time            {:.1} s simulated in {:.1} s; history {:016x}",
            self.simulated.as_secs_f64(),
            self.took.as_secs_f64(),
            self.fingerprint
        )?;
        for violation in &self.violations {
            write!(f, "\n  VIOLATION       {violation}")?;
        }
        Ok(())
    }
}
