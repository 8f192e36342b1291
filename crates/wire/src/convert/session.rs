//! Sessions: opens, calls and closes.

use plimsoll_core::{
    CloseRequest, ClosedSession, OpenRequest, OpenedSession, Payload, RunRequest, SessionEnd, SessionEnded, SessionId,
    SessionRunRequest,
};
use plimsoll_record::{Answer, SessionAnswer};

use crate::pb;
use crate::pb::__buffa::oneof::session_run_request::Payload as Wire;

impl From<pb::OpenSessionRequest> for OpenRequest {
    fn from(sent: pb::OpenSessionRequest) -> Self {
        Self {
            protocol: sent.protocol,
            minimum_isolation: sent.minimum_isolation,
            trace_id: sent.trace_id,
            lifetime_ms: sent.lifetime_ms,
            idle_timeout_ms: sent.idle_timeout_ms,
            software_rule: sent.software_rule.into_option().map(Into::into),
            languages: sent.languages,
            owner: sent.owner,
        }
    }
}

impl From<OpenRequest> for pb::OpenSessionRequest {
    fn from(own: OpenRequest) -> Self {
        Self {
            protocol: own.protocol,
            minimum_isolation: own.minimum_isolation,
            trace_id: own.trace_id,
            lifetime_ms: own.lifetime_ms,
            idle_timeout_ms: own.idle_timeout_ms,
            software_rule: own.software_rule.map(pb::SoftwareRule::from).into(),
            languages: own.languages,
            owner: own.owner,
            ..Self::default()
        }
    }
}

impl From<OpenedSession> for pb::OpenSessionResponse {
    fn from(own: OpenedSession) -> Self {
        Self {
            session_id: own.session_id.reveal().to_owned(),
            session: own.session,
            sandbox: own.sandbox,
            isolation: own.isolation,
            expires_unix_ms: own.expires_unix_ms,
            idle_timeout_ms: own.idle_timeout_ms,
            software_identity: own.software_identity,
            ..Self::default()
        }
    }
}

impl From<pb::OpenSessionResponse> for OpenedSession {
    fn from(sent: pb::OpenSessionResponse) -> Self {
        Self {
            session_id: SessionId::new(sent.session_id),
            session: sent.session,
            sandbox: sent.sandbox,
            isolation: sent.isolation,
            expires_unix_ms: sent.expires_unix_ms,
            idle_timeout_ms: sent.idle_timeout_ms,
            software_identity: sent.software_identity,
        }
    }
}

impl From<pb::SessionRunRequest> for SessionRunRequest {
    fn from(sent: pb::SessionRunRequest) -> Self {
        Self {
            session_id: SessionId::new(sent.session_id),
            run: RunRequest {
                protocol: sent.protocol,
                minimum_isolation: sent.minimum_isolation,
                trace_id: sent.trace_id,
                timeout_ms: sent.timeout_ms,
                software_rule: sent.software_rule.into_option().map(Into::into),
                payload: sent.payload.map(|payload| match payload {
                    Wire::Javascript(run) => Payload::JavaScript((*run).into()),
                    Wire::Project(run) => Payload::Project((*run).into()),
                    Wire::Cell(run) => Payload::Cell((*run).into()),
                }),
            },
        }
    }
}

impl From<SessionRunRequest> for pb::SessionRunRequest {
    /// A module has no place in a session call and travels as no payload, which the daemon refuses.
    fn from(own: SessionRunRequest) -> Self {
        let run = own.run;
        Self {
            protocol: run.protocol,
            minimum_isolation: run.minimum_isolation,
            trace_id: run.trace_id,
            timeout_ms: run.timeout_ms,
            session_id: own.session_id.reveal().to_owned(),
            software_rule: run.software_rule.map(pb::SoftwareRule::from).into(),
            payload: run.payload.and_then(|payload| match payload {
                Payload::JavaScript(run) => Some(Wire::from(pb::JavaScriptRun::from(run))),
                Payload::Project(run) => Some(Wire::from(pb::ProjectRun::from(run))),
                Payload::Cell(run) => Some(Wire::from(pb::CellRun::from(run))),
                Payload::Module(_) => None,
            }),
            ..Self::default()
        }
    }
}

impl From<SessionAnswer> for pb::SessionRunResponse {
    fn from(own: SessionAnswer) -> Self {
        let (ended, end_detail) = own
            .ended
            .map_or((0, String::new()), |ended| (ended.end.number(), ended.detail));
        Self {
            run: Some(pb::RunResponse::from(own.run)).into(),
            ended: ended.into(),
            end_detail,
            ..Self::default()
        }
    }
}

impl From<pb::SessionRunResponse> for SessionAnswer {
    fn from(sent: pb::SessionRunResponse) -> Self {
        let ended = sent.ended.to_i32();
        Self {
            run: Answer::from(sent.run.into_option().unwrap_or_default()),
            ended: (ended != 0).then(|| SessionEnded {
                end: SessionEnd::from_number(ended),
                detail: sent.end_detail,
            }),
        }
    }
}

impl From<pb::CloseSessionRequest> for CloseRequest {
    fn from(sent: pb::CloseSessionRequest) -> Self {
        Self {
            protocol: sent.protocol,
            session_id: SessionId::new(sent.session_id),
        }
    }
}

impl From<CloseRequest> for pb::CloseSessionRequest {
    fn from(own: CloseRequest) -> Self {
        Self {
            protocol: own.protocol,
            session_id: own.session_id.reveal().to_owned(),
            ..Self::default()
        }
    }
}

impl From<ClosedSession> for pb::CloseSessionResponse {
    fn from(own: ClosedSession) -> Self {
        Self {
            session: own.session,
            calls: own.calls,
            last_record_sha256: own.last_record_sha256,
            ended: own.ended.number().into(),
            ..Self::default()
        }
    }
}

impl From<pb::CloseSessionResponse> for ClosedSession {
    fn from(sent: pb::CloseSessionResponse) -> Self {
        Self {
            session: sent.session,
            calls: sent.calls,
            last_record_sha256: sent.last_record_sha256,
            ended: SessionEnd::from_number(sent.ended.to_i32()),
        }
    }
}
