use plimsoll_core::{
    CellRun, CloseRequest, ClosedSession, Diagnostics, Evidence, JavaScriptResult, Limit, ModuleRun, OpenRequest,
    OpenedSession, Payload, PayloadEnvironment, ProjectFile, ProjectOutcome, ProjectResult, ProjectRun, RunResult,
    SessionEnd, SessionId, SessionRunRequest, SessionSupport, SessionTerms, SoftwareRuleText, StepResult, Trap,
};
use plimsoll_record::{Answer, RunRecord};

use super::*;
use crate::json::to_json;

fn requests() -> Vec<RunRequest> {
    let files = vec![ProjectFile {
        path: "a.txt".into(),
        content: "é\0".into(),
    }];
    let project = ProjectRun {
        files: files.clone(),
        steps: vec!["node a".into(), String::new()],
        artifacts: vec!["out".into()],
        grant_profile: "p".into(),
    };
    let module = ModuleRun {
        model: "m".into(),
        rows: vec![vec![-0.0, 2.0], vec![]],
        end_time: 1.0,
        step: 0.1,
    };
    let cell = plimsoll_core::CellRun {
        language: "python".into(),
        code: "x".into(),
        files,
    };
    let mut snippet = RunRequest::javascript("console.log(1)");
    snippet.timeout_ms = -5;
    snippet.trace_id = "t".into();
    snippet.minimum_isolation = "vm".into();
    snippet.software_rule = Some(SoftwareRuleText {
        mode: "approved".into(),
        identities: vec!["b".into(), "a".into()],
    });
    let nothing = RunRequest {
        protocol: 3,
        ..RunRequest::default()
    };
    let no_rule_stated = RunRequest {
        software_rule: Some(SoftwareRuleText::default()),
        ..RunRequest::default()
    };
    [Payload::Project(project), Payload::Module(module), Payload::Cell(cell)]
        .into_iter()
        .map(RunRequest::new)
        .chain([snippet, nothing, no_rule_stated])
        .collect()
}

#[test]
fn requests_read_back_from_both_codecs_exactly_as_sent() {
    for request in requests() {
        let message = pb::RunRequest::from(request.clone());
        assert_eq!(decode_run_json(&to_json(&message)).unwrap(), request);
        assert_eq!(decode_run_binary(&to_binary(&message)).unwrap(), request);
    }
    assert_eq!(decode_run_binary(b"").unwrap(), RunRequest::default());
}

#[test]
fn the_last_member_of_a_oneof_wins_in_binary_and_a_string_is_utf8() {
    // Field 10 (javascript, code "a"), then field 11 (project, empty).
    let body = b"\x52\x03\x0a\x01a\x5a\x00";
    assert!(matches!(
        decode_run_binary(body).unwrap().payload,
        Some(Payload::Project(_))
    ));
    assert!(decode_run_binary(b"\x12\x01\xff").is_err());
    assert!(decode_run_binary(b"\x12\x05a").is_err());
    assert!(decode_run_binary(b"{}").is_err());
    // Unknown fields are skipped: field 99 of three wire types.
    assert_eq!(
        decode_run_binary(b"\x98\x06\x01\x9a\x06\x01x\x9d\x06abcd\x08\x04")
            .unwrap()
            .protocol,
        4
    );
}

#[test]
fn a_binary_body_of_empty_elements_cannot_cost_many_times_its_size() {
    let rows = b"\x12\x00".repeat(2_000_000);
    let mut body = vec![0x62];
    let mut length = rows.len();
    while length > 0x7f {
        body.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    body.push(u8::try_from(length).unwrap());
    body.extend(rows);
    assert!(decode_run_binary(&body).is_err());
}

fn answer() -> Answer {
    let diagnostics = Diagnostics {
        limit_hit: Some(Limit::HostCalls),
        stdout_bytes: 1 << 40,
        stderr_bytes: 2,
        peak_memory_bytes: 3,
        signal: 9,
        trap: Some(Trap::Stack),
    };
    let step = StepResult {
        command: "false".into(),
        exit_code: -1,
        stdout: vec![0, 255],
        diagnostics,
        ..StepResult::default()
    };
    Answer {
        sandbox: "wasm".into(),
        isolation: "process".into(),
        duration_ms: -1,
        record: Some(RunRecord {
            version: 4,
            sequence: u64::MAX,
            ..RunRecord::default()
        }),
        software_identity: "s".into(),
        environment: "e".into(),
        instance: "i:1".into(),
        diagnostics: Some(diagnostics),
        result: Some(RunResult::Project(ProjectResult {
            steps: vec![step],
            outcome: ProjectOutcome(77),
            ..ProjectResult::default()
        })),
    }
}

#[test]
fn answers_read_back_from_both_codecs() {
    let snippet = JavaScriptResult {
        stdout: b"42\n".to_vec(),
        stderr: vec![0xff, b'x'],
        exit_code: 3,
        ..Default::default()
    };
    let bare = Answer {
        diagnostics: None,
        record: None,
        result: None,
        ..answer()
    };
    for answer in [
        answer(),
        Answer {
            result: Some(RunResult::JavaScript(snippet)),
            ..answer()
        },
        bare,
    ] {
        let message = pb::RunResponse::from(answer.clone());
        let json: pb::RunResponse = from_json(&to_json(&message)).unwrap();
        assert_eq!(Answer::from(json), answer);
        let binary: pb::RunResponse = from_binary(&to_binary(&message)).unwrap();
        assert_eq!(Answer::from(binary), answer);
    }
}

#[test]
fn diagnostics_are_field_1000_and_the_record_field_4() {
    let message = pb::RunResponse::from(Answer {
        result: None,
        ..answer()
    });
    let binary = to_binary(&message);
    // Field 1000, wire type 2: tag (1000 << 3) | 2 = 8002 = c2 3e.
    assert!(binary.windows(2).any(|pair| pair == [0xc2, 0x3e]));
    assert!(binary.windows(2).any(|pair| pair[0] == 0x22));
}

#[test]
fn describe_states_current_evidence_and_nothing_that_is_off() {
    let disabled = describe_response(&Evidence::disabled());
    assert_eq!(
        to_json(&disabled),
        br#"{"sandbox":"disabled","isolation":"none","protocol":4,"resources":{}}"#
    );
    let javascript = PayloadEnvironment {
        identity: "quickjs-wasm:sha256:x".into(),
        max_timeout_ms: 900_000,
        software_identity: String::new(),
        languages: vec!["javascript".into()],
    };
    let mut evidence = Evidence::disabled();
    evidence.environments.javascript = Some(javascript.clone());
    evidence.sessions = Some(SessionSupport {
        environment: javascript,
        ..SessionSupport::default()
    });
    let off = describe_response(&evidence);
    assert!(!off.supports_sessions && !off.session_environment.is_set());
    let terms = SessionTerms {
        lifetime_ms: 1,
        idle_timeout_ms: 2,
        max_per_caller: 3,
        max_per_owner: 4,
    };
    let stated = describe_with_sessions(&evidence, Some(&terms));
    assert_eq!(
        stated.javascript_environment.as_option().unwrap().max_timeout_ms,
        300_000
    );
    assert!(!stated.supports_project && !stated.project_environment.is_set());
    assert!(stated.supports_sessions && stated.session_environment.is_set());
    assert_eq!((stated.session_lifetime_ms, stated.max_sessions_per_owner), (1, 4));
}

#[test]
fn session_messages_survive_both_ways_and_keep_their_numbers() {
    let open = OpenRequest {
        protocol: 4,
        minimum_isolation: "kernel".into(),
        trace_id: "t".into(),
        lifetime_ms: 1,
        idle_timeout_ms: 2,
        software_rule: Some(SoftwareRuleText {
            mode: "exact".into(),
            identities: vec!["a".into()],
        }),
        languages: vec!["python".into()],
        owner: "u".into(),
    };
    assert_eq!(OpenRequest::from(pb::OpenSessionRequest::from(open.clone())), open);
    let opened = OpenedSession {
        session_id: SessionId::new("s"),
        session: "f".into(),
        sandbox: "docker".into(),
        isolation: "kernel".into(),
        expires_unix_ms: 5,
        idle_timeout_ms: 6,
        software_identity: "a".into(),
    };
    assert_eq!(
        OpenedSession::from(pb::OpenSessionResponse::from(opened.clone())),
        opened
    );
    let cell = Payload::Cell(CellRun {
        language: "python".into(),
        code: "1".into(),
        files: Vec::new(),
    });
    let call = SessionRunRequest {
        session_id: SessionId::new("s"),
        run: RunRequest::new(cell),
    };
    let wire = pb::SessionRunRequest::from(call.clone());
    // A cell is member 12 here and member 13 of a run request.
    assert!(to_binary(&wire).contains(&(12 << 3 | 2)), "{wire:?}");
    assert_eq!(SessionRunRequest::from(wire), call);
    let close = CloseRequest {
        protocol: 4,
        session_id: SessionId::new("s"),
    };
    assert_eq!(CloseRequest::from(pb::CloseSessionRequest::from(close.clone())), close);
    let closed = ClosedSession {
        session: "f".into(),
        calls: 3,
        last_record_sha256: "d".into(),
        ended: SessionEnd::Replaced,
    };
    let wire = pb::CloseSessionResponse::from(closed.clone());
    assert_eq!(
        to_json(&wire),
        br#"{"session":"f","calls":"3","lastRecordSha256":"d","ended":"SESSION_END_REPLACED"}"#
    );
    assert_eq!(ClosedSession::from(wire), closed);
}
