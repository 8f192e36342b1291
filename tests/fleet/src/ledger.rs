//! Who ran what, written where no crash of a host can reach: outside the simulation.

use plimsoll_client::{ErrorKind, Refusal};

/// What became of every call.
#[derive(Debug)]
pub(crate) struct Ledger {
    runs: Vec<Run>,
}

/// One call's two sides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// How often a provider began it.
    pub(crate) begun: u32,
    /// The daemon that began it last.
    pub(crate) on: Option<usize>,
    /// What its caller was told.
    pub(crate) answer: Option<Answer>,
    /// Answers its caller has taken; one for each call.
    pub(crate) answers: u32,
}

/// What a caller was told in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A checked result of this daemon, after so many refusals.
    Result { daemon: usize, refusals: usize },
    /// That nothing ran.
    Refused { reason: Refusal, refusals: usize },
    /// That it may have run.
    MayHaveRun { kind: ErrorKind },
}

impl Ledger {
    pub(crate) fn new(runs: usize) -> Self {
        Self {
            runs: vec![Run::default(); runs],
        }
    }

    /// A provider hands the run to its sandbox: from here on it has run.
    pub(crate) fn begun(&mut self, run: usize, daemon: usize) {
        if let Some(run) = self.runs.get_mut(run) {
            run.begun += 1;
            run.on = Some(daemon);
        }
    }

    /// A caller takes its answer.
    pub(crate) fn answered(&mut self, run: usize, answer: Answer) {
        if let Some(run) = self.runs.get_mut(run) {
            run.answer = Some(answer);
            run.answers += 1;
        }
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }
}
