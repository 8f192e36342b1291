//! From an HTTP answer to something believed, or an error that says how much of it counts.

use http::HeaderMap;
use plimsoll_core::{Code, Payload, PayloadKind, Reason, RunRequest, RunResult, SoftwareRule};
use plimsoll_record::{Answer, LiveAnswer, LiveFault, RunRecord, verify_live};
use plimsoll_wire::http::{JSON, NOT_DISPATCHED, REQUEST_ID};
use plimsoll_wire::json::{JsonError, JsonMessage, from_json, from_json_with_end};
use plimsoll_wire::{RemoteError, pb};

use crate::error::{Error, ErrorKind, Refusal};
use crate::results::{RunOutput, meets};
use crate::transport::HttpAnswer;

/// Status, binding, content type and strict reading, in that order.
pub(crate) fn read<M: JsonMessage>(http: &HttpAnswer) -> Result<M, Error> {
    read_with(http, from_json)
}

/// As [`read`], for an answer that states how a session ended: an end this build has no name for is one all the same.
pub(crate) fn read_session<M: JsonMessage>(http: &HttpAnswer) -> Result<M, Error> {
    read_with(http, from_json_with_end)
}

fn read_with<M>(http: &HttpAnswer, decode: impl FnOnce(&[u8]) -> Result<M, JsonError>) -> Result<M, Error> {
    let bound = only_value(&http.headers, REQUEST_ID) == Some(http.request_id.as_str());
    if http.status != 200 {
        return Err(restore(http, bound));
    }
    if !bound {
        return Err(Error::new(
            ErrorKind::AnswerNotBound,
            "a success came back that does not name this request; something between here and the daemon may have \
             replayed it, so nothing in it is believed",
        )
        .not_bound()
        .with_status(http.status));
    }
    let malformed = |message: String| Error::new(ErrorKind::MalformedResponse, message).with_status(http.status);
    if !is_json(&http.headers) {
        return Err(malformed(
            "the answer's content type is not application/json".to_owned(),
        ));
    }
    decode(&http.body).map_err(|fault| malformed(format!("the answer cannot be read: {fault}")).with_source(fault))
}

/// The one value of a header; nothing when it is absent, repeated or not text.
fn only_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        None
    } else {
        value.to_str().ok()
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    only_value(headers, "content-type")
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON))
}

/// An answer other than 200, with its mark only when the answer names this request.
fn restore(http: &HttpAnswer, bound: bool) -> Error {
    let remote = RemoteError::parse(http.status, &http.body);
    if !bound {
        let message = format!(
            "{}; the answer does not name this request, so whatever else it states was dropped",
            remote.message
        );
        return Error::new(ErrorKind::AnswerNotBound, message)
            .with_code(remote.code)
            .with_status(http.status)
            .not_bound();
    }
    let header = || {
        only_value(&http.headers, NOT_DISPATCHED)
            .and_then(Reason::from_wire)
            .map(Refusal::from)
    };
    let mark = remote.not_dispatched.map(Refusal::from_number).or_else(header);
    let kind = class(remote.code, mark, remote.session_ended.is_some());
    let mut error = Error::new(kind, remote.message)
        .with_code(remote.code)
        .with_status(http.status);
    match (mark, remote.unanswered) {
        (Some(mark), _) => error = error.marked(mark),
        (None, Some(record)) => error = error.with_unanswered(record),
        (None, None) => {}
    }
    match remote.session_ended {
        Some(ended) if kind == ErrorKind::SessionEnded => error.with_session_end(ended),
        _ => error,
    }
}

/// The kind of a bound error.
fn class(code: Code, mark: Option<Refusal>, session_ended: bool) -> ErrorKind {
    match (code, mark) {
        (Code::FailedPrecondition, _) if session_ended => ErrorKind::SessionEnded,
        (Code::FailedPrecondition, Some(Refusal::Isolation)) => ErrorKind::InsufficientIsolation,
        (Code::FailedPrecondition, Some(Refusal::Environment)) => ErrorKind::SoftwareMismatch,
        (Code::FailedPrecondition, _) => ErrorKind::Disabled,
        (Code::Unimplemented, Some(Refusal::Protocol)) => ErrorKind::ProtocolMismatch,
        (Code::Unimplemented, _) => ErrorKind::Unsupported,
        (Code::ResourceExhausted, Some(Refusal::Capacity)) => ErrorKind::AtCapacity,
        (Code::ResourceExhausted, Some(Refusal::Request)) | (Code::InvalidArgument, _) => ErrorKind::InvalidRequest,
        // Never "at capacity" without the reason: an exhausted resource may follow execution.
        (Code::ResourceExhausted | Code::Canceled | Code::DeadlineExceeded, _) => ErrorKind::Daemon,
        _ if session_ended => ErrorKind::SessionEnded,
        _ => ErrorKind::Daemon,
    }
}

/// The checks of a run's answer, in their order. `rule` is absent when the request's own rule does not parse, which no
/// record can satisfy.
pub(crate) fn check_run(
    request: &RunRequest,
    rule: Option<&SoftwareRule>,
    answer: pb::RunResponse,
) -> Result<RunOutput, Error> {
    let answer = Answer::from(answer);
    let record = check_record(request, rule, &answer);
    let asked = request.payload.as_ref().map(Payload::kind);
    let found = answer.result.as_ref().map(RunResult::kind);
    let output = RunOutput::from_answer(answer, record.is_ok());
    let output = match output {
        Some(output) if found == asked => output,
        other => {
            let error = other_kind(asked, found);
            return Err(match other {
                Some(output) => error.with_result(output),
                None => error,
            });
        }
    };
    if let Err(fault) = record {
        return Err(disbelieved(fault).with_result(output));
    }
    let (stated, floor) = (&output.evidence().isolation, &request.minimum_isolation);
    if !meets(stated, floor) {
        return Err(below_floor(stated, floor).with_result(output));
    }
    Ok(output)
}

/// A record that does not stand.
pub(crate) fn disbelieved(fault: LiveFault) -> Error {
    let kind = match fault {
        LiveFault::NoRecord => ErrorKind::NoRecord,
        LiveFault::Version { .. } => ErrorKind::RecordVersion,
        LiveFault::Mismatch(_) => ErrorKind::RecordMismatch,
        LiveFault::BelowFloor { .. } => ErrorKind::IsolationEvidenceMismatch,
    };
    Error::new(kind, fault.to_string()).with_status(200).with_source(fault)
}

/// A stated tier below the floor that was sent.
pub(crate) fn below_floor(stated: &str, floor: &str) -> Error {
    let message = format!("the floor sent was {floor}, and the answer states tier {stated:?}");
    Error::new(ErrorKind::IsolationEvidenceMismatch, message).with_status(200)
}

/// A result of another kind than was asked for, or none.
pub(crate) fn other_kind(asked: Option<PayloadKind>, found: Option<PayloadKind>) -> Error {
    let word = |kind: Option<PayloadKind>| kind.map_or("none", PayloadKind::as_str);
    let message = format!(
        "a result of kind {} was asked for, the answer holds {}",
        word(asked),
        word(found)
    );
    Error::new(ErrorKind::ResultKindMismatch, message).with_status(200)
}

fn check_record(request: &RunRequest, rule: Option<&SoftwareRule>, answer: &Answer) -> Result<(), LiveFault> {
    let rule = rule.ok_or(LiveFault::Mismatch("the request's software rule is malformed"))?;
    single_run(recompute(request, rule, answer)?)
}

/// Recomputes the record of an answer from the request that was sent and the answer that came.
pub(crate) fn recompute<'a>(
    request: &RunRequest,
    rule: &SoftwareRule,
    answer: &'a Answer,
) -> Result<&'a RunRecord, LiveFault> {
    let live = LiveAnswer {
        provider: &answer.sandbox,
        isolation: &answer.isolation,
        environment: &answer.environment,
        software_identity: &answer.software_identity,
        instance: &answer.instance,
        result: answer.result.as_ref(),
    };
    verify_live(request, rule, &live, answer.record.as_ref())
}

/// A single run stands in no chain.
fn single_run(record: &RunRecord) -> Result<(), LiveFault> {
    if record.session.is_empty() && record.sequence == 0 && record.previous_sha256.is_empty() {
        Ok(())
    } else {
        Err(LiveFault::Mismatch("session fields are set on a single run"))
    }
}
