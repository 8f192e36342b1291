//! What is believed of a session call's answer, or of the record of one that has none.

use plimsoll_core::{Payload, RunRequest, RunResult, SoftwareRule};
use plimsoll_record::{ChainBreak, LiveFault, RunRecord, SessionAnswer, verify_unanswered};

use super::Kept;
use crate::answer::{below_floor, disbelieved, other_kind, recompute};
use crate::error::{Error, ErrorKind};
use crate::results::{RunOutput, meets};

impl Kept {
    /// The checks of an answered call, in their order: record, tier against floor, chain; only then the chain moves, and
    /// the kind of the result is looked at. A failure before that stops the session.
    pub(super) fn believe(
        &self,
        request: &RunRequest,
        rule: &SoftwareRule,
        answer: SessionAnswer,
    ) -> Result<RunOutput, Error> {
        if let Some(ended) = &answer.ended {
            self.set_ended(ended);
        }
        let answer = answer.run;
        let asked = request.payload.as_ref().map(Payload::kind);
        let found = answer.result.as_ref().map(RunResult::kind);
        let followed = recompute(request, rule, &answer)
            .map_err(disbelieved)
            .and_then(|record| {
                if !meets(&record.isolation, &request.minimum_isolation) {
                    return Err(below_floor(&record.isolation, &request.minimum_isolation));
                }
                Ok(record)
            });
        let trusted = followed.is_ok();
        let followed = followed.and_then(|record| self.follow(record).map_err(broken));
        let output = RunOutput::from_answer(answer, trusted);
        match (followed, output) {
            (Ok(()), Some(output)) if found == asked => Ok(output),
            (Ok(()), output) => Err(with_result(other_kind(asked, found), output)),
            (Err(error), output) => {
                self.stop(format!(
                    "the answer of a call could not be believed ({})",
                    error.message()
                ));
                Err(with_result(error, output))
            }
        }
    }

    /// What an error leaves of the session. A marked one leaves it as it was; one after which the call may have run must
    /// carry the call's record, which takes its place in the chain.
    pub(super) fn take_error(&self, request: &RunRequest, rule: &SoftwareRule, error: Error) -> Error {
        if let Some(ended) = error.session_end() {
            self.set_ended(ended);
        }
        if error.not_dispatched().is_some() {
            return error;
        }
        let Some(record) = error.unanswered().cloned() else {
            self.stop(format!(
                "a call ended without an answer or a record of it ({})",
                error.message()
            ));
            return error;
        };
        match self.believe_unanswered(request, rule, &record) {
            Ok(()) => error.with_record(record),
            Err(fault) => {
                self.stop(format!(
                    "the record of a call without an answer could not be believed ({})",
                    fault.message()
                ));
                fault.with_source(error)
            }
        }
    }

    fn believe_unanswered(&self, request: &RunRequest, rule: &SoftwareRule, record: &RunRecord) -> Result<(), Error> {
        verify_unanswered(request, rule, record).map_err(disbelieved)?;
        let stated = &self.stated;
        for (what, recorded, opened) in [
            ("provider is not the session's", &record.provider, &stated.provider),
            ("isolation is not the session's", &record.isolation, &stated.isolation),
            (
                "software identity is not the session's",
                &record.software_identity,
                &stated.software_identity,
            ),
        ] {
            if recorded != opened {
                return Err(disbelieved(LiveFault::Mismatch(what)));
            }
        }
        self.follow(record).map_err(broken)
    }
}

/// A record that is whole and stands in another place.
fn broken(fault: ChainBreak) -> Error {
    Error::new(ErrorKind::Chain, fault.to_string())
        .with_status(200)
        .with_source(fault)
}

fn with_result(error: Error, output: Option<RunOutput>) -> Error {
    match output {
        Some(output) => error.with_result(output),
        None => error,
    }
}
