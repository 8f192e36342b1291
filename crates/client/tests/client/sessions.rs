//! A session follows the chain of its records, and believes nothing that does not continue it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::keeper;
use crate::common::keeper::{FINGERPRINT, ID, Keeper, answered, changing, count, error, scripted, unanswered_detail};
use crate::common::{Server, bound, seal};
use plimsoll_client::{
    CellRequest, CellResult, Client, Code, Error, ErrorKind, ProjectRequest, Refusal, Session, SessionEnd,
    SoftwareRule, Tier, verify_chain,
};
use plimsoll_core::{OpenRequest, Payload, RunResult, SessionEnded};
use plimsoll_wire::json::{from_json, to_json};
use plimsoll_wire::pb;

async fn open(server: &Server) -> Session {
    open_with(&server.client()).await
}

async fn open_with(client: &Client) -> Session {
    client.open_session().floor(Tier::Container).send().await.unwrap()
}

async fn cell(session: &Session) -> Result<CellResult, Error> {
    session.run_cell(CellRequest::python("6 * 7")).send().await
}

#[tokio::test]
async fn an_open_session_states_what_the_daemon_stated_and_hides_its_id() {
    let server = changing(|_, _| ()).await;
    let session = open(&server).await;
    assert_eq!(session.fingerprint(), FINGERPRINT);
    assert_eq!((session.provider(), session.isolation()), ("docker", "kernel"));
    assert_eq!((session.tier(), session.calls()), (Some(Tier::Kernel), 0));
    assert_eq!(session.software_identity(), crate::common::SOFTWARE);
    assert_eq!(
        (session.expires_unix_ms(), session.idle_timeout_ms()),
        (1_790_000_000_000, 300_000)
    );
    assert_eq!(
        (session.last_record_sha256(), session.ended(), session.stopped()),
        (String::new(), None, None)
    );
    assert!(!format!("{session:?}").contains(ID), "{session:?}");
}

#[tokio::test]
async fn what_is_sent_to_open_is_exactly_what_was_asked_for() {
    let server = changing(|_, _| ()).await;
    let client = server
        .builder()
        .token("golden-token-0123456789abcdefghijklmnop")
        .build()
        .unwrap();
    let rule = SoftwareRule::exact(crate::common::SOFTWARE).unwrap();
    let session = client
        .open_session()
        .software(rule.clone())
        .lifetime(Duration::from_secs(60))
        .idle_timeout(Duration::from_micros(1))
        .language("python")
        .language("javascript")
        .language("python")
        .owner("alice@example.com")
        .trace_id("t-1")
        .floor(Tier::Container)
        .send()
        .await
        .unwrap();
    let sent: pb::OpenSessionRequest = from_json(&server.received()[0].body).unwrap();
    let expected = OpenRequest {
        protocol: 4,
        minimum_isolation: "container".to_owned(),
        trace_id: "t-1".to_owned(),
        lifetime_ms: 60_000,
        idle_timeout_ms: 1,
        software_rule: rule.to_text(),
        languages: vec!["python".to_owned(), "javascript".to_owned()],
        owner: "a7305a43c4fad079f2784707cb25f3deee16b1c4d7da700ee664f5657084f80b".to_owned(),
    };
    assert_eq!(OpenRequest::from(sent), expected);
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_session_that_states_too_little_is_closed_and_not_handed_out() {
    let other = SoftwareRule::exact("oci-manifest:linux/amd64@sha256:other").unwrap();
    for (change, floor, rule, kind) in [
        (
            (|opened| opened.session = "0".repeat(64)) as fn(&mut pb::OpenSessionResponse),
            None,
            SoftwareRule::NONE,
            ErrorKind::Chain,
        ),
        (
            |opened| opened.isolation = "container".to_owned(),
            Some(Tier::Kernel),
            SoftwareRule::NONE,
            ErrorKind::IsolationEvidenceMismatch,
        ),
        (
            |opened| opened.isolation = "Kernel".to_owned(),
            Some(Tier::Process),
            SoftwareRule::NONE,
            ErrorKind::IsolationEvidenceMismatch,
        ),
        (|_| (), None, other, ErrorKind::SoftwareEvidenceMismatch),
    ] {
        let keeper = Keeper::new();
        let server = Server::answering(move |received| {
            if !matches!(keeper::asked(received), keeper::Asked::Open) {
                return keeper.honest(received);
            }
            let mut opened = pb::OpenSessionResponse::from(Keeper::opened());
            change(&mut opened);
            bound(received, 200, to_json(&opened))
        })
        .await;
        let client = server.client();
        let call = client.open_session().software(rule);
        let refused = match floor {
            Some(floor) => call.floor(floor).send().await,
            None => call.any_tier().send().await,
        };
        let error = refused.unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.not_dispatched()),
            (kind, Code::DataLoss, None)
        );
        assert!(!error.to_string().contains(ID), "{error}");
        assert_eq!(count(&server, "CloseSession"), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn what_can_never_be_opened_is_refused_and_nothing_is_sent() {
    let server = changing(|_, _| ()).await;
    let client = server.client();
    for refused in [
        client.open_session().owner("").any_tier().send().await,
        client.open_session().language("cobol").any_tier().send().await,
        client.open_session().trace_id("two words").any_tier().send().await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::InvalidRequest, Some(Refusal::Request))
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn every_answer_continues_the_chain_and_the_close_confirms_it() {
    let server = changing(|_, _| ()).await;
    let session = open(&server).await;
    let first = cell(&session).await.unwrap();
    assert_eq!(
        (first.stdout_text().as_ref(), first.interpreter_started),
        ("42\n", true)
    );
    let snippet = session.run_javascript("6 * 7").send().await.unwrap();
    let project = session
        .run_project(ProjectRequest::new().file("a", "b").step("true"))
        .send()
        .await
        .unwrap();
    let records = session.records();
    let stated = [&first.evidence, &snippet.evidence, &project.evidence].map(|one| one.record.clone().unwrap());
    assert_eq!(records, stated);
    assert_eq!(
        records.iter().map(|record| record.sequence).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(records[2].previous_sha256, records[1].record_sha256);
    let chain = verify_chain(&records).unwrap();
    assert_eq!(
        (chain.calls(), chain.last_sha256()),
        (3, session.last_record_sha256().as_str())
    );
    let closed = session.close().await.unwrap();
    assert!(closed.is_confirmed());
    assert_eq!((closed.summary().calls, closed.summary().end), (3, SessionEnd::Closed));
    assert_eq!(closed.summary().last_record_sha256, records[2].record_sha256);
    assert_eq!(count(&server, "CloseSession"), 1);
}

#[tokio::test]
async fn a_call_is_sent_under_the_stronger_floor_and_the_narrower_rule() {
    let server = changing(|_, _| ()).await;
    let both = SoftwareRule::approved([crate::common::SOFTWARE, "other"]).unwrap();
    let client = server.client();
    let session = client
        .open_session()
        .software(both)
        .floor(Tier::Container)
        .send()
        .await
        .unwrap();
    let one = SoftwareRule::exact(crate::common::SOFTWARE).unwrap();
    for (floor, rule, sent_floor, mode) in [
        (None, SoftwareRule::NONE, "container", "approved"),
        (Some(Tier::Process), SoftwareRule::NONE, "container", "approved"),
        (Some(Tier::Kernel), one, "kernel", "exact"),
    ] {
        let mut call = session.run_cell(CellRequest::javascript("1")).software(rule);
        if let Some(floor) = floor {
            call = call.floor(floor);
        }
        call.send().await.unwrap();
        let last = server.received().pop().unwrap();
        let sent: pb::SessionRunRequest = from_json(&last.body).unwrap();
        assert_eq!(sent.minimum_isolation, sent_floor);
        assert_eq!(sent.software_rule.into_option().unwrap().mode, mode);
    }
    let disjoint = SoftwareRule::exact("nobody").unwrap();
    let refused = session
        .run_cell(CellRequest::python("1"))
        .software(disjoint)
        .send()
        .await;
    assert_eq!(refused.unwrap_err().not_dispatched(), Some(Refusal::Request));
    assert_eq!((count(&server, "SessionRun"), session.stopped()), (3, None));
    session.close().await.unwrap();
}

#[tokio::test]
async fn what_breaks_a_rule_of_calls_is_refused_and_nothing_is_sent() {
    let server = changing(|_, _| ()).await;
    let session = open(&server).await;
    for refused in [
        session.run_cell(CellRequest::python("")).send().await,
        session.run_cell(CellRequest::in_language("cobol", "1")).send().await,
        session
            .run_cell(CellRequest::python("1").file("../up", ""))
            .send()
            .await,
        session
            .run_cell(CellRequest::python("1"))
            .trace_id("two words")
            .send()
            .await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::InvalidRequest, Some(Refusal::Request))
        );
    }
    let steps = (0..21).fold(ProjectRequest::new(), |project, _| project.step("true"));
    session.run_project(steps).send().await.unwrap_err();
    assert_eq!((count(&server, "SessionRun"), session.stopped()), (0, None));
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_record_that_does_not_continue_the_chain_stops_the_session() {
    for change in [
        (|record| record.sequence += 1) as fn(&mut plimsoll_client::RunRecord),
        |record| record.sequence = 1,
        |record| record.previous_sha256 = "0".repeat(64),
        |record| record.session = "0".repeat(64),
    ] {
        let server = changing(move |call, answer| {
            if call == 2 {
                let record = answer.run.record.as_mut().unwrap();
                change(record);
                seal(record);
            }
        })
        .await;
        let session = open(&server).await;
        cell(&session).await.unwrap();
        let first = session.last_record_sha256();
        let error = cell(&session).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.not_dispatched()),
            (ErrorKind::Chain, Code::DataLoss, None)
        );
        assert!(error.result().is_some());
        assert_eq!((session.calls(), session.last_record_sha256()), (1, first));
        assert!(session.stopped().is_some());
        stopped_takes_no_call(&session, &server, 2).await;
        session.close().await.unwrap_err();
    }
}

async fn stopped_takes_no_call(session: &Session, server: &Server, sent: usize) {
    let refused = cell(session).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.code(), refused.not_dispatched()),
        (
            ErrorKind::SessionStopped,
            Code::FailedPrecondition,
            Some(Refusal::Request)
        )
    );
    assert_eq!(count(server, "SessionRun"), sent);
}

#[tokio::test]
async fn an_answer_whose_record_or_tier_does_not_stand_stops_the_session() {
    for (change, kind) in [
        (
            (|answer| answer.run.record = None) as fn(&mut plimsoll_record::SessionAnswer),
            ErrorKind::NoRecord,
        ),
        (
            |answer| answer.run.record.as_mut().unwrap().version = 5,
            ErrorKind::RecordVersion,
        ),
        (
            |answer| {
                if let Some(RunResult::Cell(cell)) = &mut answer.run.result {
                    cell.interpreter_started = false;
                }
            },
            ErrorKind::RecordMismatch,
        ),
        (
            |answer| {
                answer.run.isolation = "process".to_owned();
                let record = answer.run.record.as_mut().unwrap();
                record.isolation = "process".to_owned();
                seal(record);
            },
            ErrorKind::IsolationEvidenceMismatch,
        ),
    ] {
        let server = changing(move |_, answer| change(answer)).await;
        let session = open(&server).await;
        let error = cell(&session).await.unwrap_err();
        assert_eq!((error.kind(), error.not_dispatched()), (kind, None));
        assert_eq!(session.calls(), 0);
        stopped_takes_no_call(&session, &server, 1).await;
    }
}

#[tokio::test]
async fn a_result_of_another_kind_is_no_answer_but_its_record_is_the_next_one() {
    let (_keeper, server) = scripted(|keeper, received, request| {
        if keeper.chain.lock().unwrap().calls() > 0 {
            return answered(received, keeper.run(request));
        }
        let mut chain = keeper.chain.lock().unwrap().clone();
        let mut answer = keeper.run(&plimsoll_client::RunRequest::javascript("1"));
        let record = answer.run.record.as_mut().unwrap();
        record.request_sha256 = plimsoll_record::request_sha256(request);
        seal(record);
        chain.follow(record).unwrap();
        *keeper.chain.lock().unwrap() = chain;
        answered(received, answer)
    })
    .await;
    let session = open(&server).await;
    let error = cell(&session).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::ResultKindMismatch, None)
    );
    assert_eq!((session.calls(), session.stopped()), (1, None));
    cell(&session).await.unwrap();
    assert!(session.close().await.unwrap().is_confirmed());
}

#[tokio::test]
async fn a_refused_call_leaves_the_session_as_it_was() {
    let (_keeper, server) = scripted(|keeper, received, request| match &request.payload {
        Some(Payload::Cell(cell)) if cell.code == "busy" => {
            error(received, 429, "resource_exhausted", &[("NotDispatched", &[8, 6])])
        }
        _ => answered(received, keeper.run(request)),
    })
    .await;
    let session = open(&server).await;
    cell(&session).await.unwrap();
    let refused = session.run_cell(CellRequest::python("busy")).send().await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::AtCapacity, Some(Refusal::Capacity))
    );
    assert_eq!((session.calls(), session.stopped(), session.ended()), (1, None, None));
    cell(&session).await.unwrap();
    assert_eq!(session.close().await.unwrap().summary().calls, 2);
}

#[tokio::test]
async fn an_end_is_told_by_an_answer_or_a_refusal_and_calls_are_still_the_daemons_to_refuse() {
    let (_keeper, server) = scripted(|keeper, received, request| {
        if keeper.chain.lock().unwrap().calls() > 0 {
            let details: [(&str, &[u8]); 2] = [("NotDispatched", &[8, 1]), ("SessionEnded", &[8, 3])];
            return error(received, 400, "failed_precondition", &details);
        }
        let mut answer = keeper.run(request);
        answer.ended = Some(SessionEnded {
            end: SessionEnd::DiskExceeded,
            detail: "too much".to_owned(),
        });
        answered(received, answer)
    })
    .await;
    let session = open(&server).await;
    cell(&session).await.unwrap();
    let end = session.ended().unwrap();
    assert_eq!((end.end, end.detail.as_str()), (SessionEnd::DiskExceeded, "too much"));
    for _ in 0..2 {
        let refused = cell(&session).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.not_dispatched()),
            (ErrorKind::SessionEnded, Some(Refusal::Request))
        );
        assert_eq!(refused.session_end().unwrap().end, SessionEnd::DiskExceeded);
    }
    assert_eq!(count(&server, "SessionRun"), 3);
    assert_eq!((session.calls(), session.stopped()), (1, None));
    session.close().await.unwrap();
}

#[tokio::test]
async fn an_end_this_build_has_no_name_for_is_an_end_of_a_believed_answer() {
    let (_keeper, server) = scripted(|keeper, received, request| {
        let body = to_json(&pb::SessionRunResponse::from(keeper.run(request)));
        let body = String::from_utf8(body).unwrap();
        let body = format!(
            r#"{},"ended":"SESSION_END_HOST_LOST"}}"#,
            body.strip_suffix('}').unwrap()
        );
        bound(received, 200, body)
    })
    .await;
    let session = open(&server).await;
    assert_eq!(cell(&session).await.unwrap().stdout, b"42\n");
    assert_eq!(session.ended().map(|ended| ended.end), Some(SessionEnd::Unknown));
    assert_eq!((session.calls(), session.stopped()), (1, None));
    session.close().await.unwrap();
}

#[tokio::test]
async fn an_answer_without_a_run_or_one_that_cannot_be_read_stops_the_session() {
    for body in [
        r#"{"ended":"SESSION_END_HOST_LOST"}"#,
        "{}",
        "{not json",
        r#"{"run":{},"run":{}}"#,
    ] {
        let (_keeper, server) = scripted(move |_, received, _| bound(received, 200, body)).await;
        let session = open(&server).await;
        let error = cell(&session).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::MalformedResponse, None),
            "{body}"
        );
        stopped_takes_no_call(&session, &server, 1).await;
    }
}

#[tokio::test]
async fn a_call_without_an_answer_takes_its_place_by_its_record_and_the_session_goes_on() {
    let (_keeper, server) = scripted(|keeper, received, request| {
        if keeper.chain.lock().unwrap().calls() == 1 {
            let record = unanswered_detail(keeper.unanswered(request, Code::Internal));
            return error(received, 500, "internal", &[("UnansweredCall", &record)]);
        }
        answered(received, keeper.run(request))
    })
    .await;
    let session = open(&server).await;
    cell(&session).await.unwrap();
    let lost = cell(&session).await.unwrap_err();
    assert_eq!(
        (lost.kind(), lost.code(), lost.not_dispatched()),
        (ErrorKind::Daemon, Code::Internal, None)
    );
    let record = lost.record().unwrap();
    assert_eq!((record.sequence, record.unanswered.as_str()), (2, "internal"));
    assert_eq!((session.calls(), session.stopped()), (2, None));
    cell(&session).await.unwrap();
    assert_eq!(verify_chain(&session.records()).unwrap().calls(), 3);
    assert_eq!(session.close().await.unwrap().summary().calls, 3);
}

#[tokio::test]
async fn an_unanswered_record_that_does_not_stand_stops_the_session() {
    for (change, kind) in [
        (
            (|record| record.provider = "wasm".to_owned()) as fn(&mut plimsoll_client::RunRecord),
            ErrorKind::RecordMismatch,
        ),
        (|record| record.sequence += 1, ErrorKind::Chain),
        (|record| record.unanswered = "ok".to_owned(), ErrorKind::RecordMismatch),
        (|record| record.isolation = "vm".to_owned(), ErrorKind::RecordMismatch),
        (
            |record| record.isolation = "process".to_owned(),
            ErrorKind::IsolationEvidenceMismatch,
        ),
        (|record| record.version = 3, ErrorKind::RecordVersion),
        (
            |record| record.result_sha256 = "0".repeat(64),
            ErrorKind::RecordMismatch,
        ),
    ] {
        let (_keeper, server) = scripted(move |keeper, received, request| {
            let mut record = keeper.unanswered(request, Code::Unavailable);
            change(&mut record);
            seal(&mut record);
            let detail = unanswered_detail(record);
            error(received, 503, "unavailable", &[("UnansweredCall", &detail)])
        })
        .await;
        let session = open(&server).await;
        let error = cell(&session).await.unwrap_err();
        assert_eq!((error.kind(), error.not_dispatched()), (kind, None), "{error}");
        let cause = std::error::Error::source(&error).unwrap();
        assert!(cause.to_string().contains("scripted"), "{cause}");
        assert_eq!((session.calls(), error.record()), (0, None));
        stopped_takes_no_call(&session, &server, 1).await;
    }
}

#[tokio::test]
async fn an_unmarked_error_without_a_record_stops_the_session_and_a_canceled_one_is_no_end() {
    const ENDED: &[(&str, &[u8])] = &[("SessionEnded", &[8, 1])];
    for (status, code, details) in [(500, "internal", &[][..]), (499, "canceled", ENDED)] {
        let (_keeper, server) = scripted(move |_, received, _| error(received, status, code, details)).await;
        let session = open(&server).await;
        let lost = cell(&session).await.unwrap_err();
        assert_eq!(
            (lost.kind(), lost.not_dispatched(), lost.session_end()),
            (ErrorKind::Daemon, None, None)
        );
        assert_eq!(session.ended(), None);
        stopped_takes_no_call(&session, &server, 1).await;
    }
}
