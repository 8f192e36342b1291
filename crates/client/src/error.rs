//! The one error type, and what every error says.

use std::error::Error as StdError;
use std::fmt;

use plimsoll_core::{Code, Reason, SessionEnded};
use plimsoll_record::RunRecord;

use crate::info::Info;
use crate::placement::Choice;
use crate::results::RunOutput;
use crate::session::SessionSummary;

/// Why nothing of a call ran. An error that carries one can be tried again without running anything twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The daemon says that nothing ran, for a reason this build has no word for.
    Unknown,
    /// Malformed or out of bounds; no backend will take it.
    Request,
    /// Identity, scope or grant; do not try elsewhere.
    Permission,
    /// The other side speaks another protocol number.
    Protocol,
    /// This provider cannot do it; another may.
    Unsupported,
    /// The wall is weaker than the floor; a stronger backend may do.
    Isolation,
    /// Admission, rate, turn or allowance; later or elsewhere.
    Capacity,
    /// The daemon was not reached, or its sandbox could not be shown to be the stated one.
    Environment,
}

impl Refusal {
    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Request => Reason::Request.as_str(),
            Self::Permission => Reason::Permission.as_str(),
            Self::Protocol => Reason::Protocol.as_str(),
            Self::Unsupported => Reason::Unsupported.as_str(),
            Self::Isolation => Reason::Isolation.as_str(),
            Self::Capacity => Reason::Capacity.as_str(),
            Self::Environment => Reason::Environment.as_str(),
        }
    }

    /// Reads the number of a `NotDispatched` detail: a number without a name still says that nothing ran.
    pub(crate) fn from_number(number: i32) -> Self {
        Reason::from_number(number).map_or(Self::Unknown, Self::from)
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Request => Self::Request,
            Reason::Permission => Self::Permission,
            Reason::Protocol => Self::Protocol,
            Reason::Unsupported => Self::Unsupported,
            Reason::Isolation => Self::Isolation,
            Reason::Capacity => Self::Capacity,
            Reason::Environment => Self::Environment,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The daemon answered with an error that has no kind of its own; see [`Error::code`].
    Daemon,
    /// The base URL was refused when the client was built.
    InvalidBaseUrl,
    /// Another option was refused when the client was built, or the client was used where it cannot work.
    InvalidOption,
    /// Cleartext to a host that is not loopback, without consent.
    InsecureHttp,
    /// The request breaks a rule; found here or by the daemon.
    InvalidRequest,
    /// The daemon's wall is weaker than the floor; nothing ran.
    InsufficientIsolation,
    /// The daemon's software is outside the rule; nothing ran.
    SoftwareMismatch,
    /// Execution is disabled on this daemon.
    Disabled,
    /// The daemon's provider cannot do it.
    Unsupported,
    /// The daemon serves another protocol number.
    ProtocolMismatch,
    /// No slot, rate or allowance just now; nothing ran.
    AtCapacity,
    /// The session has ended.
    SessionEnded,
    /// This client sends nothing more into the session, because an answer of an earlier call was lost or could not be
    /// believed; see [`crate::Session::stopped`]. Nothing of this call ran.
    SessionStopped,
    /// The caller cancelled.
    RequestCanceled,
    /// The daemon was not reached, or the connection broke.
    Transport,
    /// The request timeout passed.
    RequestTimeout,
    /// The answer is over 32 MiB.
    ResponseTooLarge,
    /// The answer cannot be read.
    MalformedResponse,
    /// The answer does not name this request, so nothing in it is believed.
    AnswerNotBound,
    /// The answer carries no run record.
    NoRecord,
    /// The run record has another version than this build checks.
    RecordVersion,
    /// The run record disagrees with the request or the answer.
    RecordMismatch,
    /// The answer states a tier below the floor that was sent.
    IsolationEvidenceMismatch,
    /// What a session states when it is opened is software outside the rule that was sent.
    SoftwareEvidenceMismatch,
    /// The answer holds another kind of result than was asked for, or none.
    ResultKindMismatch,
    /// What the daemon states about a session does not continue the chain of records seen here: a call was dropped,
    /// repeated, reordered or changed, or belongs to another session.
    Chain,
    /// No backend of a pool can take the call; the message says of each why. Nothing was sent.
    NoBackend,
    /// The call ran, and in another environment than the pool's requirement names; the checked result is attached.
    EnvironmentMismatch,
}

impl ErrorKind {
    /// Whether a success came back that cannot be taken for what was asked: the call may have run, and there is no answer to
    /// rely on.
    pub const fn is_data_loss(self) -> bool {
        matches!(
            self,
            Self::AnswerNotBound
                | Self::NoRecord
                | Self::RecordVersion
                | Self::RecordMismatch
                | Self::IsolationEvidenceMismatch
                | Self::SoftwareEvidenceMismatch
                | Self::ResultKindMismatch
                | Self::Chain
                | Self::EnvironmentMismatch
        )
    }

    /// Whether the exchange itself failed: no connection, no time, no readable answer.
    pub const fn is_transport(self) -> bool {
        matches!(
            self,
            Self::Transport | Self::RequestTimeout | Self::ResponseTooLarge | Self::MalformedResponse
        )
    }

    /// Whether it was raised while building the client, before there was a call.
    const fn is_construction(self) -> bool {
        matches!(self, Self::InvalidBaseUrl | Self::InvalidOption | Self::InsecureHttp)
    }

    const fn default_code(self) -> Code {
        match self {
            Self::Daemon => Code::Unknown,
            Self::InvalidBaseUrl | Self::InvalidOption | Self::InsecureHttp | Self::InvalidRequest => {
                Code::InvalidArgument
            }
            Self::InsufficientIsolation
            | Self::SoftwareMismatch
            | Self::Disabled
            | Self::SessionEnded
            | Self::SessionStopped => Code::FailedPrecondition,
            Self::Unsupported | Self::ProtocolMismatch | Self::NoBackend => Code::Unimplemented,
            Self::AtCapacity | Self::ResponseTooLarge => Code::ResourceExhausted,
            Self::RequestCanceled => Code::Canceled,
            Self::Transport => Code::Unavailable,
            Self::RequestTimeout => Code::DeadlineExceeded,
            Self::MalformedResponse => Code::Internal,
            Self::AnswerNotBound
            | Self::NoRecord
            | Self::RecordVersion
            | Self::RecordMismatch
            | Self::IsolationEvidenceMismatch
            | Self::SoftwareEvidenceMismatch
            | Self::ResultKindMismatch
            | Self::Chain
            | Self::EnvironmentMismatch => Code::DataLoss,
        }
    }
}

/// Why a call failed, and whether anything of it ran.
///
/// [`Error::not_dispatched`] is the question that decides about trying again: `Some` means nothing ran, `None` means the
/// call may have run. Neither the token nor any part of the request appears in an error.
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    code: Code,
    not_dispatched: Option<Refusal>,
    http_status: Option<u16>,
    answer_not_bound: bool,
    session_end: Option<SessionEnded>,
    unanswered: Option<RunRecord>,
    record: Option<RunRecord>,
    summary: Option<SessionSummary>,
    result: Option<RunOutput>,
    info: Option<Info>,
    choice: Option<Choice>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The Connect code: the daemon's, or the kind's own.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What is wrong and what helps, without the mark and code that [`fmt::Display`] adds.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Why nothing of the call ran; `None` when it may have run.
    ///
    /// Errors of [`crate::ClientBuilder::build`] carry no reason either: there was no call.
    pub fn not_dispatched(&self) -> Option<Refusal> {
        self.0.not_dispatched
    }

    /// The HTTP status, when there was an answer.
    pub fn http_status(&self) -> Option<u16> {
        self.0.http_status
    }

    /// Whether an answer came that does not name this request. Its mark, if it had one, was dropped.
    pub fn answer_not_bound(&self) -> bool {
        self.0.answer_not_bound
    }

    /// How the session ended, as the daemon states it.
    pub fn session_end(&self) -> Option<&SessionEnded> {
        self.0.session_end.as_ref()
    }

    /// The record the daemon sent with an error after dispatch, as it came off the wire and unchecked.
    pub fn unanswered(&self) -> Option<&RunRecord> {
        self.0.unanswered.as_ref()
    }

    /// The record of a session call that ended in this error after it may have run: checked, and the newest of the
    /// session's chain. The session goes on.
    pub fn record(&self) -> Option<&RunRecord> {
        self.0.record.as_ref()
    }

    /// On [`ErrorKind::Chain`] of a close: what the daemon says of the session it closed.
    pub fn summary(&self) -> Option<&SessionSummary> {
        self.0.summary.as_ref()
    }

    /// On data-loss errors: what came back, for inspection only. Its record is there only if the record itself checked.
    pub fn result(&self) -> Option<&RunOutput> {
        self.0.result.as_ref()
    }

    /// On [`ErrorKind::ProtocolMismatch`] of `describe`: what the daemon said about itself.
    pub fn info(&self) -> Option<&Info> {
        self.0.info.as_ref()
    }

    /// On an error of a pool's call that was sent: the backend it is from, and the refusals before it.
    pub fn choice(&self) -> Option<&Choice> {
        self.0.choice.as_ref()
    }

    /// An error of some kind with its default code, unmarked.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            code: kind.default_code(),
            not_dispatched: None,
            http_status: None,
            answer_not_bound: false,
            session_end: None,
            unanswered: None,
            record: None,
            summary: None,
            result: None,
            info: None,
            choice: None,
            source: None,
        }))
    }

    /// An error of the constructor.
    pub(crate) fn local(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::new(kind, message)
    }

    /// A cancellation, before or after the first byte may have left.
    pub(crate) fn canceled(sent: bool) -> Self {
        if sent {
            Self::new(ErrorKind::RequestCanceled, "the call was cancelled after it was sent")
        } else {
            Self::new(ErrorKind::RequestCanceled, "the call was cancelled before it was sent").marked(Refusal::Request)
        }
    }

    pub(crate) fn marked(mut self, refusal: Refusal) -> Self {
        self.0.not_dispatched = Some(refusal);
        self
    }

    /// Marked `environment` when nothing was sent, and unmarked otherwise.
    pub(crate) fn marked_unless(self, sent: bool) -> Self {
        if sent { self } else { self.marked(Refusal::Environment) }
    }

    pub(crate) fn with_code(mut self, code: Code) -> Self {
        self.0.code = code;
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.http_status = Some(status);
        self
    }

    pub(crate) fn not_bound(mut self) -> Self {
        self.0.answer_not_bound = true;
        self
    }

    pub(crate) fn with_session_end(mut self, ended: SessionEnded) -> Self {
        self.0.session_end = Some(ended);
        self
    }

    pub(crate) fn with_unanswered(mut self, record: RunRecord) -> Self {
        self.0.unanswered = Some(record);
        self
    }

    pub(crate) fn with_record(mut self, record: RunRecord) -> Self {
        self.0.record = Some(record);
        self
    }

    pub(crate) fn with_summary(mut self, summary: SessionSummary) -> Self {
        self.0.summary = Some(summary);
        self
    }

    pub(crate) fn with_result(mut self, result: RunOutput) -> Self {
        self.0.result = Some(result);
        self
    }

    pub(crate) fn with_info(mut self, info: Info) -> Self {
        self.0.info = Some(info);
        self
    }

    pub(crate) fn with_choice(mut self, choice: Choice) -> Self {
        self.0.choice = Some(choice);
        self
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

/// A rule found broken on this side, before anything was sent.
impl From<plimsoll_core::Refusal> for Error {
    fn from(refusal: plimsoll_core::Refusal) -> Self {
        Self::new(ErrorKind::InvalidRequest, refusal.message()).marked(Refusal::Request)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        f.write_str(&inner.message)?;
        match inner.not_dispatched {
            _ if inner.kind.is_construction() => Ok(()),
            Some(refusal) => write!(f, " ({}; nothing ran: {refusal})", inner.code),
            None => write!(f, " ({}; the call may have run)", inner.code),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        let mut debug = f.debug_struct("Error");
        debug
            .field("kind", &inner.kind)
            .field("code", &inner.code)
            .field("message", &inner.message);
        debug
            .field("not_dispatched", &inner.not_dispatched)
            .field("http_status", &inner.http_status);
        if inner.answer_not_bound {
            debug.field("answer_not_bound", &true);
        }
        if let Some(choice) = &inner.choice {
            debug.field("choice", choice);
        }
        if let Some(source) = &inner.source {
            debug.field("source", source);
        }
        debug.finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
