//! A scripted daemon that keeps one session: honest, except for what a test changes.

use std::sync::{Arc, Mutex};

use plimsoll_client::{RunRecord, RunRequest};
use plimsoll_core::{
    CellResult, ClosedSession, Code, Diagnostics, Isolation, JavaScriptResult, OpenedSession, Outcome, Payload,
    ProjectOutcome, ProjectResult, RunResult, SessionEnd, SessionEvidence, SessionId, SessionRunRequest,
    SessionSupport, SoftwareRule, Tier,
};
use plimsoll_record::{Answer, Chain, Fingerprint, SessionAnswer, Stamp};
use plimsoll_wire::json::{from_json, to_json};
use plimsoll_wire::{pb, to_binary};

use crate::common::{IMAGE, Received, SOFTWARE, Server, base64, bound};

pub(crate) const ID: &str = "00112233445566778899aabbccddeeff";

/// The fingerprint of [`ID`].
pub(crate) const FINGERPRINT: &str = "5947d7c33d783f94b3b4c1a96ebc8991ed28f1b069b71e03376cba8caa98a720";

/// What a request asks of the scripted daemon.
pub(crate) enum Asked {
    Open,
    Run(Box<RunRequest>),
    Close,
}

pub(crate) fn asked(received: &Received) -> Asked {
    let procedure = received
        .line
        .split([' ', '/'])
        .rev()
        .find(|word| word.ends_with("Session") || word.ends_with("Run"))
        .expect("a procedure");
    match procedure {
        "OpenSession" => Asked::Open,
        "SessionRun" => {
            let sent: pb::SessionRunRequest = from_json(&received.body).expect("a session call");
            let request = SessionRunRequest::from(sent);
            assert_eq!(request.session_id.reveal(), ID);
            Asked::Run(Box::new(request.run))
        }
        "CloseSession" => Asked::Close,
        other => panic!("{other} was not expected"),
    }
}

/// How many calls of each procedure a server has seen.
pub(crate) fn count(server: &Server, procedure: &str) -> usize {
    let received = server.received();
    received
        .iter()
        .filter(|request| request.line.contains(&format!("/{procedure} ")))
        .count()
}

/// The one session of a scripted daemon.
pub(crate) struct Keeper {
    pub(crate) chain: Mutex<Chain>,
}

impl Keeper {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            chain: Mutex::new(Chain::new(Fingerprint::of(ID))),
        })
    }

    pub(crate) fn opened() -> OpenedSession {
        OpenedSession {
            session_id: SessionId::new(ID),
            session: FINGERPRINT.to_owned(),
            sandbox: "docker".to_owned(),
            isolation: "kernel".to_owned(),
            expires_unix_ms: 1_790_000_000_000,
            idle_timeout_ms: 300_000,
            software_identity: SOFTWARE.to_owned(),
        }
    }

    pub(crate) fn open(received: &Received) -> Vec<u8> {
        bound(received, 200, to_json(&pb::OpenSessionResponse::from(Self::opened())))
    }

    /// The answer to a call, which is the next one of the chain.
    pub(crate) fn run(&self, request: &RunRequest) -> SessionAnswer {
        let mut chain = self.chain.lock().expect("no test holds it");
        let outcome = outcome(request);
        let rule = SoftwareRule::parse(request.software_rule.as_ref()).expect("a rule");
        let record = stamp().answered_in(&chain, request, &rule, &outcome);
        chain.follow(&record).expect("the next record");
        SessionAnswer {
            run: Answer::new("docker", outcome, record),
            ended: None,
        }
    }

    /// The record of a call that may have run and has no answer; the next one of the chain.
    pub(crate) fn unanswered(&self, request: &RunRequest, code: Code) -> RunRecord {
        let mut chain = self.chain.lock().expect("no test holds it");
        let rule = SoftwareRule::parse(request.software_rule.as_ref()).expect("a rule");
        let record = stamp().unanswered_in(&chain, request, &rule, &stated(), code);
        chain.follow(&record).expect("the next record");
        record
    }

    pub(crate) fn closed(&self) -> ClosedSession {
        let chain = self.chain.lock().expect("no test holds it");
        ClosedSession {
            session: FINGERPRINT.to_owned(),
            calls: chain.calls(),
            last_record_sha256: chain.last_sha256().to_owned(),
            ended: SessionEnd::Closed,
        }
    }

    pub(crate) fn close(&self, received: &Received) -> Vec<u8> {
        bound(received, 200, to_json(&pb::CloseSessionResponse::from(self.closed())))
    }

    /// The honest answer to anything.
    pub(crate) fn honest(&self, received: &Received) -> Vec<u8> {
        match asked(received) {
            Asked::Open => Self::open(received),
            Asked::Run(request) => answered(received, self.run(&request)),
            Asked::Close => self.close(received),
        }
    }
}

/// A daemon that is honest but for calls, whose answers `change` may change; calls are counted from 1.
pub(crate) async fn changing(change: impl Fn(u64, &mut SessionAnswer) + Send + Sync + 'static) -> Server {
    let keeper = Keeper::new();
    Server::answering(move |received| match asked(received) {
        Asked::Run(request) => {
            let mut answer = keeper.run(&request);
            let call = keeper.chain.lock().expect("no test holds it").calls();
            change(call, &mut answer);
            answered(received, answer)
        }
        _ => keeper.honest(received),
    })
    .await
}

/// A daemon of one session whose calls a test answers itself, call by call.
pub(crate) async fn scripted(
    run: impl Fn(&Keeper, &Received, &RunRequest) -> Vec<u8> + Send + Sync + 'static,
) -> (Arc<Keeper>, Server) {
    let keeper = Keeper::new();
    let own = Arc::clone(&keeper);
    let server = Server::answering(move |received| match asked(received) {
        Asked::Run(request) => run(&own, received, &request),
        _ => own.honest(received),
    })
    .await;
    (keeper, server)
}

pub(crate) fn answered(received: &Received, answer: SessionAnswer) -> Vec<u8> {
    bound(received, 200, to_json(&pb::SessionRunResponse::from(answer)))
}

/// An error with details: message name and binary message each.
pub(crate) fn error(received: &Received, status: u16, code: &str, details: &[(&str, &[u8])]) -> Vec<u8> {
    let details: Vec<String> = details
        .iter()
        .map(|(kind, value)| format!(r#"{{"type":"plimsoll.v1.{kind}","value":"{}"}}"#, base64(value)))
        .collect();
    let body = format!(
        r#"{{"code":"{code}","message":"scripted","details":[{}]}}"#,
        details.join(",")
    );
    bound(received, status, body)
}

/// The `UnansweredCall` detail of a record.
pub(crate) fn unanswered_detail(record: RunRecord) -> Vec<u8> {
    to_binary(&pb::UnansweredCall {
        record: Some(pb::RunRecord::from(record)).into(),
        ..Default::default()
    })
}

fn stamp() -> Stamp<'static> {
    Stamp {
        provider: "docker",
        policy: "",
        started_unix_ms: 1_790_000_000_000,
        ended_unix_ms: 1_790_000_000_095,
    }
}

fn stated() -> SessionEvidence {
    let mut support = SessionSupport::default();
    support.environment.identity = IMAGE.to_owned();
    support.environment.software_identity = SOFTWARE.to_owned();
    SessionEvidence {
        provider: "docker",
        isolation: Isolation::Proven(Tier::Kernel),
        support,
        instance: String::new(),
    }
}

fn outcome(request: &RunRequest) -> Outcome {
    let result = match request.payload.as_ref().expect("a payload") {
        Payload::Cell(_) => RunResult::Cell(CellResult {
            stdout: b"42\n".to_vec(),
            interpreter_started: true,
            ..CellResult::default()
        }),
        Payload::Project(_) => RunResult::Project(ProjectResult {
            outcome: ProjectOutcome::COMPLETED,
            ..ProjectResult::default()
        }),
        Payload::JavaScript(_) => RunResult::JavaScript(JavaScriptResult {
            stdout: b"42\n".to_vec(),
            ..JavaScriptResult::default()
        }),
        Payload::Module(_) => panic!("modules have no session form"),
    };
    Outcome {
        result,
        isolation: Isolation::Proven(Tier::Kernel),
        duration_ms: 12,
        environment: IMAGE.to_owned(),
        software_identity: SOFTWARE.to_owned(),
        instance: String::new(),
        diagnostics: Diagnostics::default(),
    }
}
