//! What is believed of a run's answer, and what is not.

use std::time::Duration;

use crate::common::{IMAGE, SOFTWARE, Server, body, bound, daemon, honest, http, seal};
use plimsoll_client::{
    Client, Code, Error, ErrorKind, JavaScriptResult, Limit, ModuleRequest, ProjectOutcome, ProjectRequest, Refusal,
    RunOutput, RunRequest, SoftwareRule, Tier, with_trace_id,
};
use plimsoll_core::{CellResult, RunResult};
use plimsoll_record::Answer;

async fn snippet(client: &Client) -> Result<JavaScriptResult, Error> {
    client
        .run_javascript("console.log(6*7)")
        .floor(Tier::Container)
        .send()
        .await
}

#[tokio::test]
async fn a_snippet_comes_back_with_its_evidence_and_record() {
    let server = daemon(|_| ()).await;
    let result = snippet(&server.client()).await.unwrap();
    assert_eq!(result.stdout_text(), "42\n");
    assert_eq!((result.exit_code, result.timed_out), (0, false));
    let evidence = &result.evidence;
    assert_eq!(
        (evidence.provider.as_str(), evidence.isolation.as_str()),
        ("docker", "kernel")
    );
    assert_eq!(
        (evidence.environment.as_str(), evidence.software_identity.as_str()),
        (IMAGE, SOFTWARE)
    );
    assert_eq!((evidence.tier(), evidence.duration_ms), (Some(Tier::Kernel), 12));
    let diagnostics = evidence.diagnostics.unwrap();
    assert_eq!(
        (diagnostics.limit_hit, diagnostics.stdout_bytes),
        (Some(Limit::Memory), 3)
    );
    assert_eq!(evidence.record.as_ref().unwrap().version, 4);
}

#[tokio::test]
async fn the_digests_are_the_published_ones() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    let call = || client.run_javascript("console.log(6*7)");
    let anywhere = call().any_tier().send().await.unwrap().evidence.record.unwrap();
    let walled = call()
        .floor(Tier::Container)
        .timeout(Duration::from_secs(5))
        .send()
        .await
        .unwrap();
    let walled = walled.evidence.record.unwrap();
    assert_eq!(
        anywhere.request_sha256,
        "f65090a97b59925602246c3a7ab3e5d05dfde6cae06c13365cbd0e6be4986dc3"
    );
    assert_eq!(
        walled.request_sha256,
        "ee7252e250bfa5566d8b10d4952f61b6493e59672975bf21ca92e46d9b3fbd22"
    );
    assert_eq!(
        walled.result_sha256,
        "9a471e25396d4e0a2ef3124f138007aadce1a73d746dd4b99c38c50c0df2a7a5"
    );
    assert_eq!(
        walled.record_sha256,
        "768a9dc6b72f437aa89f9ccca9a800d2c51107cdbba78bf7bad6cbcff9fb7adc"
    );
}

#[tokio::test]
async fn the_request_is_exactly_the_profile_of_the_protocol() {
    let server = daemon(|_| ()).await;
    let client = server.builder().token("secret-token").build().unwrap();
    for _ in 0..2 {
        snippet(&client).await.unwrap();
    }
    let received = server.received();
    let first = &received[0];
    assert_eq!(first.line, "POST /plimsoll.v1.SandboxService/Run HTTP/1.1");
    assert_eq!(
        first.body,
        br#"{"protocol":4,"minimumIsolation":"container","javascript":{"code":"console.log(6*7)"}}"#,
    );
    let expected = [
        ("host", server.address.to_string()),
        ("content-type", "application/json".to_owned()),
        ("connect-protocol-version", "1".to_owned()),
        ("accept-encoding", "identity".to_owned()),
        (
            "user-agent",
            concat!("plimsoll-client-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("authorization", "Bearer secret-token".to_owned()),
        ("content-length", first.body.len().to_string()),
    ];
    for (name, value) in &expected {
        assert_eq!(first.header(name), Some(value.as_str()), "{name}");
    }
    assert_eq!(first.headers.len(), expected.len() + 1, "{:?}", first.headers);
    let ids: Vec<&str> = received.iter().map(|request| request.id()).collect();
    assert!(
        ids.iter()
            .all(|id| id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    );
    assert_ne!(ids[0], ids[1]);
    assert_eq!(server.connections(), 2, "a connection is never used for a second call");

    let prefixed = Client::builder(format!("{}/base/", server.url())).build().unwrap();
    snippet(&prefixed).await.unwrap();
    let last = server.received().pop().unwrap();
    assert_eq!(last.line, "POST /base/plimsoll.v1.SandboxService/Run HTTP/1.1");
    assert_eq!(last.header("authorization"), None);
}

#[tokio::test]
async fn projects_and_modules_come_back_typed() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    let project = ProjectRequest::new()
        .file("a.txt", "é\u{0}")
        .step("cat a.txt")
        .artifact(".plimsoll/out");
    let result = client.run_project(project).any_tier().send().await.unwrap();
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    assert_eq!(
        (result.steps[0].exit_code, result.steps[0].stdout.as_slice()),
        (3, b"\xff\xfe\n".as_slice())
    );
    assert_eq!(result.steps[0].stdout_text(), "\u{fffd}\u{fffd}\n");
    assert_eq!(
        (
            result.artifacts[0].path.as_str(),
            result.artifacts[0].content.as_slice()
        ),
        (".plimsoll/out", b"bytes".as_slice())
    );

    let module = ModuleRequest {
        model: "tank".into(),
        rows: vec![vec![1.0, -0.0]],
        end_time: 10.0,
        step: 5.0,
    };
    let result = client.run_module(module).any_tier().send().await.unwrap();
    let outputs = &result.runs[0].outputs;
    assert_eq!(
        outputs[0].to_bits(),
        0x7ff8_0000_0000_0000,
        "a quiet NaN without sign or payload"
    );
    assert_eq!(outputs[1].to_bits(), (-0.0_f64).to_bits());
    assert_eq!((outputs[2], outputs[3]), (f64::INFINITY, 1e300));
}

#[tokio::test]
async fn grant_profiles_default_per_kind_and_a_call_overrides_them() {
    let server = daemon(|_| ()).await;
    let client = server
        .builder()
        .javascript_grant("js-default")
        .project_grant("project-default")
        .build()
        .unwrap();
    let project = || ProjectRequest::new().step("true");
    client.run_javascript("1").any_tier().send().await.unwrap();
    client.run_project(project()).any_tier().send().await.unwrap();
    client
        .run_javascript("1")
        .any_tier()
        .grant_profile("own")
        .send()
        .await
        .unwrap();
    client
        .run_project(project())
        .grant_profile("")
        .any_tier()
        .send()
        .await
        .unwrap();
    let named: Vec<String> = server
        .received()
        .iter()
        .map(|request| request.run().payload.unwrap().grant_profile().to_owned())
        .collect();
    assert_eq!(named, ["js-default", "project-default", "own", ""]);
}

#[tokio::test]
async fn a_trace_id_of_the_call_wins_over_that_of_the_task() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    with_trace_id("task-1", async {
        client.run_javascript("1").any_tier().send().await.unwrap();
        client
            .run_javascript("1")
            .any_tier()
            .trace_id("call-1")
            .send()
            .await
            .unwrap();
        client.run_javascript("1").any_tier().trace_id("").send().await.unwrap();
    })
    .await;
    client.run_javascript("1").any_tier().send().await.unwrap();
    let ids: Vec<String> = server.received().iter().map(|request| request.run().trace_id).collect();
    assert_eq!(ids, ["task-1", "call-1", "", ""]);
    let refused = with_trace_id("no spaces", client.run_javascript("1").any_tier().send())
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::InvalidRequest, Some(Refusal::Request))
    );
    assert_eq!(server.connections(), 4);
}

/// Changes an answer and asks for it; every change here must be noticed.
async fn tampered(change: impl Fn(&mut Answer) + Send + Sync + 'static) -> Error {
    let server = daemon(change).await;
    let error = snippet(&server.client()).await.expect_err("a change that is noticed");
    assert_eq!(error.not_dispatched(), None, "data loss is never marked: {error}");
    error
}

#[tokio::test]
async fn a_record_that_disagrees_with_anything_is_a_mismatch_even_with_its_digest_recomputed() {
    type Change = fn(&mut plimsoll_client::RunRecord);
    let changes: [(&str, Change); 14] = [
        ("request", |record| record.request_sha256 = "0".repeat(64)),
        ("result", |record| record.result_sha256 = "0".repeat(64)),
        ("unanswered", |record| record.unanswered = "internal".into()),
        ("provider", |record| record.provider = "wasm".into()),
        ("isolation", |record| record.isolation = "vm".into()),
        ("environment", |record| {
            record.environment = "docker-image:sha256:2".into();
        }),
        ("instance", |record| record.instance = "pod:1".into()),
        ("software", |record| record.software_identity = "other".into()),
        ("rule id", |record| record.software_rule_id = "exact:other".into()),
        ("session", |record| record.session = "5".repeat(64)),
        ("sequence", |record| record.sequence = 1),
        ("previous", |record| record.previous_sha256 = "5".repeat(64)),
        ("request digest in upper case", |record| {
            record.request_sha256.make_ascii_uppercase();
        }),
        ("result digest left out", |record| record.result_sha256.clear()),
    ];
    for (what, change) in changes {
        let error = tampered(move |answer| {
            let record = answer.record.as_mut().expect("a record");
            change(record);
            seal(record);
        })
        .await;
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::RecordMismatch, Code::DataLoss),
            "{what}"
        );
        let Some(RunOutput::JavaScript(result)) = error.result() else {
            panic!("{what}: no result attached")
        };
        assert_eq!(
            (result.stdout_text().as_ref(), &result.evidence.record),
            ("42\n", &None),
            "{what}"
        );
    }
}

#[tokio::test]
async fn an_answer_changed_beside_its_record_is_a_mismatch() {
    type Change = fn(&mut Answer);
    let changes: [(&str, Change); 7] = [
        ("provider", |answer| answer.sandbox = "wasm".into()),
        ("isolation", |answer| answer.isolation = "vm".into()),
        ("environment", |answer| answer.environment.clear()),
        ("software", |answer| answer.software_identity.clear()),
        ("instance", |answer| answer.instance = "pod:1".into()),
        ("record digest", |answer| {
            answer.record.as_mut().unwrap().record_sha256 = "0".repeat(64);
        }),
        ("output", |answer| {
            let Some(RunResult::JavaScript(result)) = &mut answer.result else {
                panic!("a snippet")
            };
            result.stdout = b"43\n".to_vec();
        }),
    ];
    for (what, change) in changes {
        assert_eq!(tampered(change).await.kind(), ErrorKind::RecordMismatch, "{what}");
    }
    let both = |answer: &mut Answer| {
        answer.instance = "Not an instance".into();
        let record = answer.record.as_mut().unwrap();
        record.instance = "Not an instance".into();
        seal(record);
    };
    assert_eq!(
        tampered(both).await.kind(),
        ErrorKind::RecordMismatch,
        "an instance in another form"
    );
}

#[tokio::test]
async fn fields_outside_the_digests_may_differ() {
    let server = daemon(|answer| {
        answer.duration_ms = 99;
        answer.diagnostics = None;
    })
    .await;
    let result = snippet(&server.client()).await.unwrap();
    assert_eq!((result.evidence.duration_ms, result.evidence.diagnostics), (99, None));
}

#[tokio::test]
async fn a_record_of_another_version_says_who_must_upgrade() {
    for (version, words) in [
        (5, "upgrade this client"),
        (3, "the daemon is too old"),
        (0, "the daemon is too old"),
    ] {
        let error = tampered(move |answer| answer.record.as_mut().unwrap().version = version).await;
        assert_eq!(error.kind(), ErrorKind::RecordVersion, "{version}");
        assert!(error.message().contains(words), "{}", error.message());
    }
    let error = tampered(|answer| answer.record = None).await;
    assert_eq!(error.kind(), ErrorKind::NoRecord);
    assert!(error.result().is_some());
}

#[tokio::test]
async fn another_kind_of_result_outranks_a_bad_record() {
    for result in [Some(RunResult::Cell(CellResult::default())), None] {
        let attached = result.is_some();
        let error = tampered(move |answer| {
            answer.result.clone_from(&result);
            answer.record = None;
        })
        .await;
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::ResultKindMismatch, Code::DataLoss)
        );
        assert_eq!(error.result().is_some(), attached);
    }
}

#[tokio::test]
async fn a_tier_below_the_floor_is_caught_with_result_and_record_attached() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    client.run_javascript("1").floor(Tier::Kernel).send().await.unwrap();
    let error = client.run_javascript("1").floor(Tier::Vm).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsolationEvidenceMismatch);
    assert!(error.kind().is_data_loss());
    assert_eq!(error.not_dispatched(), None);
    assert!(error.result().unwrap().evidence().record.is_some());
}

#[tokio::test]
async fn software_outside_the_rule_is_caught() {
    let server = daemon(|answer| {
        let record = answer.record.as_mut().unwrap();
        answer.software_identity = "somewhere:else".into();
        record.software_identity = "somewhere:else".into();
        seal(record);
    })
    .await;
    let rule = SoftwareRule::exact(SOFTWARE).unwrap();
    let error = server
        .client()
        .run_javascript("1")
        .any_tier()
        .software(rule.clone())
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RecordMismatch);
    let honest = daemon(|_| ()).await;
    let result = honest
        .client()
        .run_javascript("1")
        .any_tier()
        .software(rule)
        .send()
        .await
        .unwrap();
    assert_eq!(
        result.evidence.record.unwrap().software_rule_id,
        format!("exact:{SOFTWARE}")
    );
}

#[tokio::test]
async fn a_success_that_does_not_name_the_request_is_not_believed() {
    let ids: [fn(&str) -> Vec<String>; 4] = [
        |_| vec![],
        |_| vec!["0123456789abcdef0123456789abcdef".to_owned()],
        |id| vec![id.to_owned(), id.to_owned()],
        |id| vec![id.to_uppercase()],
    ];
    for ids in ids {
        let server = Server::answering(move |request| {
            let ids = ids(request.id());
            let mut headers = vec![
                ("Content-Type", "application/json"),
                ("Plimsoll-Not-Dispatched", "capacity"),
            ];
            headers.extend(ids.iter().map(|id| ("Plimsoll-Request-Id", id.as_str())));
            http(200, &headers, body(honest(&request.run())))
        })
        .await;
        let error = snippet(&server.client()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::AnswerNotBound, Code::DataLoss)
        );
        assert!(error.answer_not_bound());
        assert_eq!((error.not_dispatched(), error.http_status()), (None, Some(200)));
    }
}

#[tokio::test]
async fn answers_that_are_not_strict_json_of_the_right_shape_are_malformed() {
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let bodies = [
        "",
        "{not json",
        "[1]",
        "null",
        "{} {}",
        "\u{feff}{}",
        r#"{"durationMs":NaN}"#,
        r#"{"durationMs":1.5}"#,
        r#"{"durationMs":"9223372036854775808"}"#,
        r#"{"sandbox":"a","sandbox":"b"}"#,
        r#"{"unknown":{"a":1,"a":2}}"#,
        r#"{"softwareIdentity":"a","software_identity":"b"}"#,
        r#"{"sandbox":"\ud800"}"#,
        r#"{"unknown":"\udc00"}"#,
        r#"{"sandbox":7}"#,
        r#"{"javascript":{"stdout":"*"}}"#,
        r#"{"javascript":{},"project":{}}"#,
        r#"{"project":{"outcome":"PROJECT_OUTCOME_INVENTED"}}"#,
        &deep,
    ];
    for text in bodies {
        let shown: String = text.chars().take(60).collect();
        let text = text.to_owned();
        let server = Server::answering(move |request| bound(request, 200, &text)).await;
        let error = snippet(&server.client()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::MalformedResponse, Code::Internal),
            "{shown}: {error}"
        );
        assert_eq!(
            (error.not_dispatched(), error.http_status()),
            (None, Some(200)),
            "{shown}"
        );
    }
    let server = Server::answering(|request| bound(request, 200, b"{\"sandbox\":\"\xff\"}")).await;
    assert_eq!(
        snippet(&server.client()).await.unwrap_err().kind(),
        ErrorKind::MalformedResponse,
        "not UTF-8"
    );
}

#[tokio::test]
async fn only_json_is_read_and_its_parameters_are_ignored() {
    for (content_type, accepted) in [
        (Some("text/html"), false),
        (Some("application/proto"), false),
        (None, false),
        (Some("Application/JSON; charset=utf-8"), true),
    ] {
        let server = Server::answering(move |request| {
            let mut headers = vec![("Plimsoll-Request-Id", request.id())];
            headers.extend(content_type.map(|content_type| ("Content-Type", content_type)));
            http(200, &headers, body(honest(&request.run())))
        })
        .await;
        let outcome = snippet(&server.client()).await;
        assert_eq!(outcome.is_ok(), accepted, "{content_type:?}");
        if let Err(error) = outcome {
            assert_eq!(error.kind(), ErrorKind::MalformedResponse, "{content_type:?}");
        }
    }
}

#[tokio::test]
async fn both_spellings_and_every_form_of_a_value_are_read() {
    let server = Server::answering(|request| {
        let record = honest(&request.run()).record.expect("a record");
        let body = format!(
            r#"{{"sandbox":"docker","isolation":"kernel","duration_ms":"12","software_identity":"{SOFTWARE}",
                "environment":"{IMAGE}","instance":null,"unknown":[1,{{"a":[]}}],
                "record":{{"version":"4","request_sha256":"{}","result_sha256":"{}","provider":"docker",
                "isolation":"kernel","environment":"{IMAGE}","started_unix_ms":1767225600000,
                "endedUnixMs":"1767225600012","record_sha256":"{}","software_identity":"{SOFTWARE}","sequence":0}},
                "javascript":{{"stdout":"NDIK","stderr":"","exit_code":0.0,"timed_out":null}}}}"#,
            record.request_sha256, record.result_sha256, record.record_sha256,
        );
        bound(request, 200, body)
    })
    .await;
    assert_eq!(snippet(&server.client()).await.unwrap().stdout_text(), "42\n");
}

#[tokio::test]
async fn an_outcome_number_without_a_name_is_kept_and_covered_by_the_record() {
    let server = daemon(|answer| {
        let Some(RunResult::Project(result)) = &mut answer.result else {
            panic!("a project")
        };
        result.outcome = ProjectOutcome(77);
        let record = answer.record.as_mut().unwrap();
        record.result_sha256 = plimsoll_record::result_sha256(answer.result.as_ref());
        seal(record);
    })
    .await;
    let result = server
        .client()
        .run_project(ProjectRequest::new().step("true"))
        .any_tier()
        .send()
        .await
        .unwrap();
    assert_eq!(
        (result.outcome, result.outcome.as_str()),
        (ProjectOutcome(77), "unspecified")
    );
}

#[tokio::test]
async fn an_exchange_sends_the_request_unchanged_and_checks_the_answer() {
    let server = daemon(|_| ()).await;
    let client = server.builder().javascript_grant("default").build().unwrap();
    let mut request = RunRequest::javascript("");
    request.protocol = 3;
    request.trace_id = "not a trace id".into();
    let output = client.exchange(request.clone()).await.unwrap();
    assert!(output.evidence().record.is_some());
    assert_eq!(server.received()[0].run(), request);

    request.minimum_isolation = "none".into();
    let error = client.exchange(request.clone()).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::IsolationEvidenceMismatch,
        "a floor of none is met by nothing"
    );

    let lying = daemon(|answer| answer.record = None).await;
    assert_eq!(
        lying.client().exchange(request).await.unwrap_err().kind(),
        ErrorKind::NoRecord
    );
}
