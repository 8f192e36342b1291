//! Two kinds of failure and no third: nothing of the call ran, or it may have.

use std::fmt;

/// The sixteen Connect error codes, with their published HTTP statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The caller went away.
    Canceled,
    /// Nothing else fits.
    Unknown,
    /// The request is malformed whatever the state of the system.
    InvalidArgument,
    /// A deadline passed.
    DeadlineExceeded,
    /// The named thing does not exist.
    NotFound,
    /// The thing to create exists.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// A quota, a slot or a size is used up.
    ResourceExhausted,
    /// The state of the system forbids it.
    FailedPrecondition,
    /// A conflict; try again from a fresh read.
    Aborted,
    /// Past a valid range.
    OutOfRange,
    /// Not offered here.
    Unimplemented,
    /// A fault of ours.
    Internal,
    /// Not reachable just now.
    Unavailable,
    /// Evidence is missing or wrong.
    DataLoss,
    /// No usable credential.
    Unauthenticated,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 16] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The snake_case name on the wire and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// Reads a code name; a name we do not know is no code.
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// The HTTP status of a Connect error with this code.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Canceled => 499,
            Self::InvalidArgument | Self::OutOfRange | Self::FailedPrecondition => 400,
            Self::DeadlineExceeded => 504,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::PermissionDenied => 403,
            Self::ResourceExhausted => 429,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::Unauthenticated => 401,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why nothing ran, in the words a router acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Malformed or out of bounds; no backend will take it.
    Request,
    /// Identity, scope or grant; do not try elsewhere.
    Permission,
    /// Another protocol number is served.
    Protocol,
    /// This provider cannot do it; another may.
    Unsupported,
    /// The wall is weaker than the floor; a stronger backend may.
    Isolation,
    /// Admission, rate, turn or allowance; later or elsewhere.
    Capacity,
    /// The sandbox could not be shown to be the stated one.
    Environment,
}

impl Reason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::Request,
        Self::Permission,
        Self::Protocol,
        Self::Unsupported,
        Self::Isolation,
        Self::Capacity,
        Self::Environment,
    ];

    /// The word of the `Plimsoll-Not-Dispatched` header and of labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Permission => "permission",
            Self::Protocol => "protocol",
            Self::Unsupported => "unsupported",
            Self::Isolation => "isolation",
            Self::Capacity => "capacity",
            Self::Environment => "environment",
        }
    }

    /// The number of `plimsoll.v1.NotDispatchedReason`.
    pub const fn number(self) -> i32 {
        match self {
            Self::Request => 1,
            Self::Permission => 2,
            Self::Protocol => 3,
            Self::Unsupported => 4,
            Self::Isolation => 5,
            Self::Capacity => 6,
            Self::Environment => 7,
        }
    }

    /// Reads a number of the wire; 0 and numbers we do not know are none of these.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.number() == number)
    }

    /// Reads a word of the wire; `unknown` and any other word is none of these.
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a session ended; the number is that of `plimsoll.v1.SessionEnd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// Closed by its caller.
    Closed,
    /// Its lifetime passed.
    Expired,
    /// It wrote more than its disk bound.
    DiskExceeded,
    /// Its main process ended.
    MainProcessEnded,
    /// The wall could not be shown to hold.
    BoundaryFailed,
    /// The sandbox is no longer the one that was opened.
    SandboxChanged,
    /// The daemon stopped.
    Shutdown,
    /// Its owner's newer session took its place.
    Replaced,
    /// No such session for this caller.
    NotFound,
    /// Nobody ever named it.
    Unclaimed,
    /// An end this build has no word for.
    Unknown,
}

impl SessionEnd {
    /// The word in errors and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::DiskExceeded => "disk_exceeded",
            Self::MainProcessEnded => "main_process_ended",
            Self::BoundaryFailed => "boundary_failed",
            Self::SandboxChanged => "sandbox_changed",
            Self::Shutdown => "shutdown",
            Self::Replaced => "replaced",
            Self::NotFound => "not_found",
            Self::Unclaimed => "unclaimed",
            Self::Unknown => "unknown",
        }
    }

    /// The wire number; [`SessionEnd::Unknown`] has none of its own and reads back as itself from 0.
    pub const fn number(self) -> i32 {
        match self {
            Self::Unknown => 0,
            Self::Closed => 1,
            Self::Expired => 2,
            Self::DiskExceeded => 3,
            Self::MainProcessEnded => 4,
            Self::BoundaryFailed => 5,
            Self::SandboxChanged => 6,
            Self::Shutdown => 7,
            Self::Replaced => 8,
            Self::NotFound => 9,
            Self::Unclaimed => 10,
        }
    }

    /// Reads a number inside an error detail: 0 and unknown numbers are [`SessionEnd::Unknown`], never "open".
    pub const fn from_number(number: i32) -> Self {
        match number {
            1 => Self::Closed,
            2 => Self::Expired,
            3 => Self::DiskExceeded,
            4 => Self::MainProcessEnded,
            5 => Self::BoundaryFailed,
            6 => Self::SandboxChanged,
            7 => Self::Shutdown,
            8 => Self::Replaced,
            9 => Self::NotFound,
            10 => Self::Unclaimed,
            _ => Self::Unknown,
        }
    }
}

/// Attached to a refusal of a call whose session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnded {
    /// How it ended.
    pub end: SessionEnd,
    /// Plimsoll's own words, never guest text.
    pub detail: String,
}

/// A proof that nothing of the call ran, with the reason and the words for the caller.
///
/// This is the only type that becomes a `NotDispatched` mark, and nothing converts a [`Fault`] into it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    code: Code,
    reason: Reason,
    message: String,
    session: Option<SessionEnded>,
}

impl Refusal {
    /// The one constructor: a code, a reason, and words that name what is wrong and what helps.
    pub fn new(code: Code, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            session: None,
        }
    }

    /// `invalid_argument` with reason `request`: malformed, or out of its bounds.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, Reason::Request, message)
    }

    /// `resource_exhausted` with reason `capacity`: later or elsewhere.
    pub fn capacity(message: impl Into<String>) -> Self {
        Self::new(Code::ResourceExhausted, Reason::Capacity, message)
    }

    /// `canceled` with reason `capacity`: the caller left before anything of the call ran.
    pub fn caller_gone(message: impl Into<String>) -> Self {
        Self::new(Code::Canceled, Reason::Capacity, message)
    }

    /// `deadline_exceeded` with reason `capacity`: the call's time was over before anything of it ran.
    pub fn too_late(message: impl Into<String>) -> Self {
        Self::new(Code::DeadlineExceeded, Reason::Capacity, message)
    }

    /// `failed_precondition` with reason `isolation`: the wall is weaker than the floor.
    pub fn isolation(message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, Reason::Isolation, message)
    }

    /// `failed_precondition` with reason `environment`: the software is unknown or outside the rule.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, Reason::Environment, message)
    }

    /// `unimplemented` with reason `unsupported`: this provider cannot do it.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, Reason::Unsupported, message)
    }

    /// `permission_denied` with reason `permission`.
    pub fn permission(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, Reason::Permission, message)
    }

    /// `failed_precondition` with reason `request`: the call's session has ended, and how.
    pub fn session_ended(ended: SessionEnded) -> Self {
        let detail = if ended.detail.is_empty() { "" } else { ": " };
        let message = format!(
            "the session has ended ({}{detail}{}); open a new one",
            ended.end.as_str(),
            ended.detail
        );
        Self::new(Code::FailedPrecondition, Reason::Request, message).with_session_end(ended)
    }

    /// Adds how the session ended.
    #[must_use]
    pub fn with_session_end(mut self, ended: SessionEnded) -> Self {
        self.session = Some(ended);
        self
    }

    /// The Connect code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Why nothing ran.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The words for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How the session ended, on a session call.
    pub const fn session_end(&self) -> Option<&SessionEnded> {
        self.session.as_ref()
    }
}

/// What kind of fault followed dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The caller went away, or the daemon is stopping.
    Canceled,
    /// The call's own deadline passed and there is no result.
    DeadlineExceeded,
    /// The worker refused the request after its sandbox had started; stays unmarked.
    InvalidRequest,
    /// The call's session ended while it ran.
    SessionEnded,
    /// A fault of ours or of the provider's: the text goes to the log, the caller sees an id.
    Internal,
}

/// A failure after which the call may have run. Carries no mark and never becomes a [`Refusal`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    kind: FaultKind,
    message: String,
    ended: Option<SessionEnd>,
}

impl Fault {
    /// A fault of some kind. The message of an [`FaultKind::Internal`] fault is for the log only.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            ended: None,
        }
    }

    /// The call's session ended while it ran, and it is known how.
    pub fn session_ended(ended: &SessionEnded) -> Self {
        Self {
            kind: FaultKind::SessionEnded,
            message: match ended.detail.as_str() {
                "" => format!("the session ended during the call ({})", ended.end.as_str()),
                detail => format!("the session ended during the call ({}: {detail})", ended.end.as_str()),
            },
            ended: Some(ended.end),
        }
    }

    /// A fault of ours, its cause for the log.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self::new(FaultKind::Internal, cause)
    }

    /// What kind it is.
    pub const fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The Connect code.
    pub const fn code(&self) -> Code {
        match self.kind {
            FaultKind::Canceled => Code::Canceled,
            FaultKind::DeadlineExceeded => Code::DeadlineExceeded,
            FaultKind::InvalidRequest => Code::InvalidArgument,
            FaultKind::SessionEnded => Code::FailedPrecondition,
            FaultKind::Internal => Code::Internal,
        }
    }

    /// The text: for the caller, except that of an internal fault, which is for the log.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether this counts as an infrastructure failure in metrics: a fault of ours, or a session whose sandbox was lost. A
    /// session that was over, or that a rule ended, is not one.
    pub const fn is_infrastructure(&self) -> bool {
        match self.kind {
            FaultKind::Internal => true,
            FaultKind::SessionEnded => match self.ended {
                None
                | Some(
                    SessionEnd::MainProcessEnded
                    | SessionEnd::BoundaryFailed
                    | SessionEnd::SandboxChanged
                    | SessionEnd::Unknown,
                ) => true,
                Some(
                    SessionEnd::Closed
                    | SessionEnd::Expired
                    | SessionEnd::DiskExceeded
                    | SessionEnd::Shutdown
                    | SessionEnd::Replaced
                    | SessionEnd::NotFound
                    | SessionEnd::Unclaimed,
                ) => false,
            },
            FaultKind::Canceled | FaultKind::DeadlineExceeded | FaultKind::InvalidRequest => false,
        }
    }
}

/// How a call failed. There is no third kind and no way from the second to the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Nothing of the call ran.
    #[error(transparent)]
    NotDispatched(#[from] Refusal),
    /// The call may have run.
    #[error(transparent)]
    MayHaveRun(#[from] Fault),
}

impl RunError {
    /// The Connect code.
    pub const fn code(&self) -> Code {
        match self {
            Self::NotDispatched(refusal) => refusal.code(),
            Self::MayHaveRun(fault) => fault.code(),
        }
    }

    /// The reason of a refusal; a fault has none.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::NotDispatched(refusal) => Some(refusal.reason()),
            Self::MayHaveRun(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_read_back() {
        for code in Code::ALL {
            assert_eq!(Code::from_wire(code.as_str()), Some(code));
        }
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(usize::try_from(reason.number()), Ok(index + 1));
            assert_eq!(Reason::from_number(reason.number()), Some(reason));
            assert_eq!(Reason::from_wire(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::from_wire("unknown"), None);
        assert_eq!(Reason::from_number(0), None);
        assert_eq!(Reason::from_number(99), None);
        for number in 1..=10 {
            assert_eq!(SessionEnd::from_number(number).number(), number);
        }
        for number in [0, -1, 11, 77] {
            assert_eq!(SessionEnd::from_number(number), SessionEnd::Unknown);
        }
    }
}
