//! Names and forms of the transport.

/// Echo of the caller's id; binds an answer to its request.
pub const REQUEST_ID: &str = "plimsoll-request-id";
/// Says that nothing of the call ran, and why.
pub const NOT_DISPATCHED: &str = "plimsoll-not-dispatched";
/// Must be `1` where it is sent.
pub const CONNECT_PROTOCOL_VERSION: &str = "connect-protocol-version";
/// The caller's deadline in milliseconds.
pub const CONNECT_TIMEOUT_MS: &str = "connect-timeout-ms";
/// The caller's deadline in gRPC's form.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";
/// Every procedure lies below this path.
pub const SERVICE_PATH: &str = "/plimsoll.v1.SandboxService/";
/// What every procedure asks of a caller.
pub const SCOPE_RUN: &str = "code:run";
/// The Connect JSON codec.
pub const JSON: &str = "application/json";
/// The Connect binary codec.
pub const PROTO: &str = "application/proto";

/// The five procedures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// One payload in a fresh sandbox.
    Run,
    /// Static facts about the daemon.
    Describe,
    /// Opens a kept sandbox.
    OpenSession,
    /// One call in a kept sandbox.
    SessionRun,
    /// Closes a kept sandbox.
    CloseSession,
}

impl Procedure {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Run,
        Self::Describe,
        Self::OpenSession,
        Self::SessionRun,
        Self::CloseSession,
    ];

    /// The last segment of its path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "Run",
            Self::Describe => "Describe",
            Self::OpenSession => "OpenSession",
            Self::SessionRun => "SessionRun",
            Self::CloseSession => "CloseSession",
        }
    }

    /// The procedure a name below [`SERVICE_PATH`] stands for.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|procedure| procedure.as_str() == name)
    }

    /// The path it is posted to.
    pub fn path(self) -> String {
        format!("{SERVICE_PATH}{}", self.as_str())
    }
}

/// Whether text is a request id: exactly 32 lowercase hex digits.
pub fn is_request_id(text: &[u8]) -> bool {
    text.len() == 32 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_32_lowercase_hex_digits() {
        assert!(is_request_id(b"0123456789abcdef0123456789abcdef"));
        for bad in [
            "0123456789ABCDEF0123456789abcdef",
            "0123456789abcdef0123456789abcde",
            "g123456789abcdef0123456789abcdef",
            "",
        ] {
            assert!(!is_request_id(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn procedures_are_found_by_exact_name() {
        for procedure in Procedure::ALL {
            assert_eq!(Procedure::from_name(procedure.as_str()), Some(procedure));
        }
        assert_eq!(Procedure::from_name("run"), None);
        assert_eq!(Procedure::Run.path(), "/plimsoll.v1.SandboxService/Run");
    }
}
