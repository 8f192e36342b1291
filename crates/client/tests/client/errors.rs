//! What an error answer becomes, and how much of it is believed.

use crate::common::{Received, Server, base64, bound, http};
use plimsoll_client::{Client, Code, Error, ErrorKind, Refusal, RunRecord, SessionEnd, Tier};
use plimsoll_wire::{pb, to_binary};

async fn run(client: &Client) -> Error {
    client
        .run_javascript("1")
        .floor(Tier::Process)
        .send()
        .await
        .expect_err("an error answer")
}

async fn answered(script: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static) -> Error {
    run(&Server::answering(script).await.client()).await
}

/// The varint field 1 of a detail.
fn reason(number: u8) -> Vec<u8> {
    vec![8, number]
}

fn detail(kind: &str, value: &[u8]) -> serde_json::Value {
    serde_json::json!({ "type": format!("plimsoll.v1.{kind}"), "value": base64(value) })
}

fn error_body(code: &str, details: &[serde_json::Value]) -> String {
    serde_json::json!({ "code": code, "message": "words", "details": details }).to_string()
}

#[tokio::test]
async fn code_and_reason_decide_the_kind() {
    use ErrorKind as Kind;
    let cases: [(&str, Option<u8>, ErrorKind, Option<Refusal>); 20] = [
        (
            "failed_precondition",
            Some(5),
            Kind::InsufficientIsolation,
            Some(Refusal::Isolation),
        ),
        (
            "failed_precondition",
            Some(7),
            Kind::SoftwareMismatch,
            Some(Refusal::Environment),
        ),
        ("failed_precondition", None, Kind::Disabled, None),
        (
            "failed_precondition",
            Some(4),
            Kind::Disabled,
            Some(Refusal::Unsupported),
        ),
        ("failed_precondition", Some(99), Kind::Disabled, Some(Refusal::Unknown)),
        (
            "unimplemented",
            Some(3),
            Kind::ProtocolMismatch,
            Some(Refusal::Protocol),
        ),
        ("unimplemented", Some(4), Kind::Unsupported, Some(Refusal::Unsupported)),
        ("unimplemented", None, Kind::Unsupported, None),
        ("resource_exhausted", Some(6), Kind::AtCapacity, Some(Refusal::Capacity)),
        (
            "resource_exhausted",
            Some(1),
            Kind::InvalidRequest,
            Some(Refusal::Request),
        ),
        ("resource_exhausted", None, Kind::Daemon, None),
        ("resource_exhausted", Some(0), Kind::Daemon, Some(Refusal::Unknown)),
        (
            "invalid_argument",
            Some(1),
            Kind::InvalidRequest,
            Some(Refusal::Request),
        ),
        ("invalid_argument", None, Kind::InvalidRequest, None),
        ("internal", Some(99), Kind::Daemon, Some(Refusal::Unknown)),
        ("permission_denied", Some(2), Kind::Daemon, Some(Refusal::Permission)),
        ("unauthenticated", Some(2), Kind::Daemon, Some(Refusal::Permission)),
        ("canceled", Some(6), Kind::Daemon, Some(Refusal::Capacity)),
        ("deadline_exceeded", None, Kind::Daemon, None),
        ("data_loss", None, Kind::Daemon, None),
    ];
    for (code, number, kind, mark) in cases {
        let details: Vec<_> = number
            .map(|number| detail("NotDispatched", &reason(number)))
            .into_iter()
            .collect();
        let body = error_body(code, &details);
        let error = answered(move |request| bound(request, 418, &body)).await;
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (kind, mark),
            "{code} {number:?}"
        );
        assert_eq!(
            (error.code().as_str(), error.message(), error.http_status()),
            (code, "words", Some(418))
        );
        let said = if mark.is_some() {
            "nothing ran"
        } else {
            "the call may have run"
        };
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_session_end_is_read_where_it_can_stand() {
    let cases = [
        (
            "failed_precondition",
            Some(1),
            8,
            ErrorKind::SessionEnded,
            Some(SessionEnd::Replaced),
        ),
        (
            "failed_precondition",
            Some(1),
            0,
            ErrorKind::SessionEnded,
            Some(SessionEnd::Unknown),
        ),
        (
            "failed_precondition",
            Some(1),
            77,
            ErrorKind::SessionEnded,
            Some(SessionEnd::Unknown),
        ),
        (
            "failed_precondition",
            Some(5),
            2,
            ErrorKind::SessionEnded,
            Some(SessionEnd::Expired),
        ),
        (
            "not_found",
            Some(1),
            9,
            ErrorKind::SessionEnded,
            Some(SessionEnd::NotFound),
        ),
        ("canceled", None, 1, ErrorKind::Daemon, None),
        ("deadline_exceeded", None, 1, ErrorKind::Daemon, None),
    ];
    for (code, number, end, kind, expected) in cases {
        let mut details: Vec<_> = number
            .map(|number| detail("NotDispatched", &reason(number)))
            .into_iter()
            .collect();
        details.push(detail("SessionEnded", &[8, end, 18, 2, b'h', b'i']));
        let body = error_body(code, &details);
        let error = answered(move |request| bound(request, 400, &body)).await;
        assert_eq!(error.kind(), kind, "{code} {end}");
        assert_eq!(error.session_end().map(|ended| ended.end), expected, "{code} {end}");
        if let Some(ended) = error.session_end() {
            assert_eq!(ended.detail, "hi");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_no_connect_error_is_read_by_its_status() {
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (405, Code::Unknown),
        (500, Code::Unknown),
    ] {
        for body in [
            "upstream down",
            "",
            "[1]",
            "\"code\"",
            r#"{"code":"no_such_code","message":""}"#,
            r#"{"code":7}"#,
        ] {
            let error = answered(move |request| bound(request, status, body)).await;
            assert_eq!((error.code(), error.not_dispatched()), (code, None), "{status} {body}");
            assert_eq!(error.message(), format!("HTTP {status}"));
        }
    }
    let error = answered(|request| bound(request, 400, r#"{"code":"no_such_code"}"#)).await;
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn a_header_marks_a_bound_answer_without_a_detail() {
    let marked = |header: &'static str, body: &'static str, status: u16| {
        answered(move |request| {
            http(
                status,
                &[
                    ("Plimsoll-Request-Id", request.id()),
                    ("Plimsoll-Not-Dispatched", header),
                ],
                body,
            )
        })
    };
    for reason in [
        "request",
        "permission",
        "protocol",
        "unsupported",
        "isolation",
        "capacity",
        "environment",
    ] {
        let error = marked(reason, "", 404).await;
        assert_eq!(error.not_dispatched().unwrap().as_str(), reason);
        assert_eq!((error.code(), error.http_status()), (Code::Unimplemented, Some(404)));
    }
    assert_eq!(marked("unsupported", "", 404).await.kind(), ErrorKind::Unsupported);
    for no_reason in ["unknown", "Request", "", "nonsense"] {
        assert_eq!(marked(no_reason, "", 404).await.not_dispatched(), None, "{no_reason:?}");
    }
    for status in [405, 415, 431] {
        let error = marked("request", "", status).await;
        assert_eq!(
            (error.code(), error.not_dispatched()),
            (Code::Unknown, Some(Refusal::Request)),
            "{status}"
        );
    }
    let both = r#"{"code":"resource_exhausted","details":[{"type":"plimsoll.v1.NotDispatched","value":"CAY"}]}"#;
    assert_eq!(
        marked("request", both, 429).await.not_dispatched(),
        Some(Refusal::Capacity),
        "the detail wins"
    );
    let twice = answered(|request| {
        let mark = ("Plimsoll-Not-Dispatched", "capacity");
        http(503, &[("Plimsoll-Request-Id", request.id()), mark, mark], "")
    })
    .await;
    assert_eq!(twice.not_dispatched(), None, "two marks are no mark");
}

#[tokio::test]
async fn an_error_that_does_not_name_the_request_keeps_only_code_and_message() {
    let body = error_body(
        "failed_precondition",
        &[
            detail("NotDispatched", &reason(5)),
            detail("SessionEnded", &reason(8)),
            detail("UnansweredCall", &unanswered()),
        ],
    );
    for id in [None, Some("0123456789abcdef0123456789abcdef")] {
        let body = body.clone();
        let error = answered(move |_| {
            let mut headers = vec![
                ("Content-Type", "application/json"),
                ("Plimsoll-Not-Dispatched", "isolation"),
            ];
            headers.extend(id.map(|id| ("Plimsoll-Request-Id", id)));
            http(400, &headers, &body)
        })
        .await;
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::AnswerNotBound, Code::FailedPrecondition)
        );
        assert!(
            error.answer_not_bound() && error.message().starts_with("words; "),
            "{error}"
        );
        assert_eq!(
            (error.not_dispatched(), error.session_end(), error.unanswered()),
            (None, None, None)
        );
    }
}

#[tokio::test]
async fn a_proxy_that_replays_an_earlier_answer_is_not_believed() {
    let refusal = error_body("resource_exhausted", &[detail("NotDispatched", &reason(6))]);
    let first: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let server = Server::answering(move |request| {
        let id = first.get_or_init(|| request.id().to_owned());
        http(
            429,
            &[("Content-Type", "application/json"), ("Plimsoll-Request-Id", id)],
            &refusal,
        )
    })
    .await;
    let client = server.client();
    let first = run(&client).await;
    assert_eq!(
        (first.kind(), first.not_dispatched()),
        (ErrorKind::AtCapacity, Some(Refusal::Capacity))
    );
    let replayed = run(&client).await;
    assert_eq!(
        (replayed.kind(), replayed.not_dispatched()),
        (ErrorKind::AnswerNotBound, None)
    );
    assert_eq!(server.connections(), 2);
}

/// An `UnansweredCall` with a record, and fields of later versions beside it.
fn unanswered() -> Vec<u8> {
    let record = RunRecord {
        version: 4,
        unanswered: "internal".into(),
        sequence: 2,
        ..RunRecord::default()
    };
    let mut bytes = to_binary(&pb::UnansweredCall {
        record: Some(record.into()).into(),
        ..Default::default()
    });
    // Field 9 as a varint and field 10 as fixed32.
    bytes.extend_from_slice(&[72, 150, 1, 85, 1, 2, 3, 4]);
    bytes
}

#[tokio::test]
async fn an_unanswered_record_is_kept_raw_and_never_beside_a_mark() {
    let body = error_body("internal", &[detail("UnansweredCall", &unanswered())]);
    let error = answered(move |request| bound(request, 500, &body)).await;
    let record = error.unanswered().unwrap();
    assert_eq!(
        (record.version, record.unanswered.as_str(), record.sequence),
        (4, "internal", 2)
    );
    assert_eq!(error.not_dispatched(), None);

    let body = error_body(
        "internal",
        &[
            detail("UnansweredCall", &unanswered()),
            detail("NotDispatched", &reason(7)),
        ],
    );
    let error = answered(move |request| bound(request, 500, &body)).await;
    assert_eq!(
        (error.unanswered(), error.not_dispatched()),
        (None, Some(Refusal::Environment))
    );
}

#[tokio::test]
async fn details_are_read_in_every_base64_form_and_undecodable_ones_state_nothing() {
    let not_dispatched = |kind: &'static str, value: &'static str| {
        answered(move |request| {
            let details = format!(r#"{{"code":"internal","details":[7,{{"type":"{kind}","value":"{value}"}}]}}"#);
            bound(request, 500, details)
        })
    };
    let name = "plimsoll.v1.NotDispatched";
    for (kind, value, mark) in [
        (name, "CAU", Some(Refusal::Isolation)),
        (name, "CAU=", Some(Refusal::Isolation)),
        (
            "type.googleapis.com/plimsoll.v1.NotDispatched",
            "CAU",
            Some(Refusal::Isolation),
        ),
        (name, "", Some(Refusal::Unknown)),
        // Fields 15 and 16 of later versions, before and after, in either alphabet.
        (name, "CAWCAf__", None),
        (name, "CAV4_____w8", Some(Refusal::Isolation)),
        (name, "CAV4/////w8", Some(Refusal::Isolation)),
        (name, "not base64!", None),
        // Truncated, field 1 as bytes, field 0, a group.
        (name, "CA", None),
        (name, "CgEB", None),
        (name, "AAE", None),
        (name, "CwU", None),
        ("plimsoll.v1.Other", "CAU", None),
        ("NotDispatched", "CAU", None),
    ] {
        assert_eq!(
            not_dispatched(kind, value).await.not_dispatched(),
            mark,
            "{kind} {value}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_never_followed() {
    let server = Server::answering(|request| {
        http(
            307,
            &[("Location", "/elsewhere"), ("Plimsoll-Request-Id", request.id())],
            "",
        )
    })
    .await;
    let error = run(&server.client()).await;
    assert_eq!((error.code(), error.http_status()), (Code::Unknown, Some(307)));
    assert_eq!(error.not_dispatched(), None);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn describe_reads_the_daemon_and_compares_the_protocol() {
    let body = |protocol: u32| {
        format!(
            r#"{{"sandbox":"wasm","isolation":"process","supportsProject":true,"protocol":{protocol},
                "javascriptEnvironment":{{"identity":"quickjs-wasm:sha256:1","maxTimeoutMs":300000,
                "softwareIdentity":"s","languages":["javascript"]}},"resources":{{"memoryMb":64,"cpus":0.5}}}}"#
        )
    };
    let server = Server::answering(move |request| bound(request, 200, body(4))).await;
    let info = server.client().describe().await.unwrap();
    assert_eq!(
        (info.provider.as_str(), info.isolation.as_str(), info.protocol),
        ("wasm", "process", 4)
    );
    assert!(info.meets(Tier::Process) && !info.meets(Tier::Container));
    assert!(info.supports_project && !info.supports_sessions);
    assert_eq!(info.javascript_environment.languages, ["javascript"]);
    assert_eq!(
        (
            info.javascript_environment.max_timeout_ms,
            info.module_environment.max_timeout_ms
        ),
        (300_000, 0)
    );
    assert_eq!((info.resources.memory_mb, info.resources.cpus), (64, 0.5));
    let received = server.received();
    assert_eq!(received[0].line, "POST /plimsoll.v1.SandboxService/Describe HTTP/1.1");
    assert_eq!(received[0].body, b"{}");

    let newer = Server::answering(move |request| bound(request, 200, body(5))).await;
    let error = newer.client().describe().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::ProtocolMismatch, Code::Unimplemented)
    );
    assert_eq!(error.not_dispatched(), Some(Refusal::Protocol));
    assert_eq!(error.info().unwrap().protocol, 5);
    assert_eq!(newer.client().describe_unchecked().await.unwrap().protocol, 5);

    let garbled = Server::answering(|request| bound(request, 200, r#"{"protocol":"two"}"#)).await;
    assert_eq!(
        garbled.client().describe_unchecked().await.unwrap_err().kind(),
        ErrorKind::MalformedResponse
    );
}
