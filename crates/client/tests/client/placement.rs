//! Placement of runs: who is sent a call, who is sent it next, and who never is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_client::placement::{Pool, Requirement};
use plimsoll_client::{
    CancelToken, Client, Code, ErrorKind, ModuleRequest, ProjectRequest, Refusal, SoftwareRule, Tier,
};
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::common::fleet::{LONG, backend, described, describes, description, pool, refuses, runs, sent};
use crate::common::keeper::count;
use crate::common::{IMAGE, SOFTWARE, Server, any_port, body, bound, honest, http, read_request};

const OTHER: &str = "oci-manifest:linux/amd64@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn module() -> ModuleRequest {
    ModuleRequest {
        model: "m".to_owned(),
        rows: vec![vec![1.0]],
        end_time: 1.0,
        step: 1.0,
    }
}

#[tokio::test]
async fn four_marks_send_a_call_to_the_next_backend() {
    for (code, number, reason) in [
        ("resource_exhausted", 6, Refusal::Capacity),
        ("unimplemented", 4, Refusal::Unsupported),
        ("failed_precondition", 5, Refusal::Isolation),
        ("internal", 7, Refusal::Environment),
    ] {
        let first = backend(description(), refuses(code, Some(number))).await;
        let second = backend(description(), runs).await;
        let placed = pool(&[&first, &second])
            .run_javascript("1")
            .floor(Tier::Process)
            .send()
            .await
            .unwrap();
        assert_eq!(placed.value.stdout_text(), "42\n");
        assert_eq!(placed.choice.backend, "second");
        let [refused] = &placed.choice.retried[..] else {
            panic!("{:?}", placed.choice)
        };
        assert_eq!((refused.backend.as_str(), refused.reason), ("first", reason));
        assert_eq!(refused.error.not_dispatched(), Some(reason));
        assert_eq!((sent(&first).len(), sent(&second).len()), (1, 1));
    }
}

/// Why a snippet of no floor has no answer.
async fn refused_by(pool: &Pool) -> plimsoll_client::Error {
    match pool.run_javascript("1").any_tier().send().await {
        Ok(placed) => panic!("it has one: {placed:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn every_other_error_is_final() {
    for (code, number, mark) in [
        ("permission_denied", Some(2), Some(Refusal::Permission)),
        ("invalid_argument", Some(1), Some(Refusal::Request)),
        ("unimplemented", Some(3), Some(Refusal::Protocol)),
        ("unavailable", Some(99), Some(Refusal::Unknown)),
        ("internal", None, None),
        // The codes of the four refusals, without their marks.
        ("resource_exhausted", None, None),
        ("unimplemented", None, None),
        ("unavailable", None, None),
    ] {
        let first = backend(description(), refuses(code, number)).await;
        let second = backend(description(), runs).await;
        let error = refused_by(&pool(&[&first, &second])).await;
        assert_eq!((error.code().as_str(), error.not_dispatched()), (code, mark));
        let choice = error.choice().unwrap();
        assert_eq!((choice.backend.as_str(), choice.retried.len()), ("first", 0));
        assert_eq!((sent(&first).len(), second.connections()), (1, 0), "{code} {number:?}");
    }
}

#[tokio::test]
async fn when_both_are_full_the_second_one_says_so() {
    let first = backend(description(), refuses("resource_exhausted", Some(6))).await;
    let second = backend(description(), refuses("resource_exhausted", Some(6))).await;
    let error = refused_by(&pool(&[&first, &second])).await;
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::AtCapacity, Some(Refusal::Capacity))
    );
    let choice = error.choice().unwrap();
    assert_eq!(choice.backend, "second");
    assert_eq!((choice.retried[0].backend.as_str(), choice.retried.len()), ("first", 1));
}

#[tokio::test]
async fn an_answer_that_cannot_be_believed_is_never_tried_elsewhere() {
    let marked = r#"{"code":"resource_exhausted","message":"full","details":[{"type":"plimsoll.v1.NotDispatched","value":"CAY"}]}"#;
    let json = [("Content-Type", "application/json")];
    let unbound_success = move |received: &crate::common::Received| http(200, &json, body(honest(&received.run())));
    let unbound_refusal = move |_: &crate::common::Received| http(429, &json, marked);
    let mismatch = |received: &crate::common::Received| {
        let mut answer = honest(&received.run());
        answer.isolation = "vm".to_owned();
        bound(received, 200, body(answer))
    };
    let cases = [
        (backend(description(), unbound_success).await, ErrorKind::AnswerNotBound),
        (backend(description(), unbound_refusal).await, ErrorKind::AnswerNotBound),
        (backend(description(), mismatch).await, ErrorKind::RecordMismatch),
    ];
    for (first, kind) in cases {
        let second = backend(description(), runs).await;
        let error = refused_by(&pool(&[&first, &second])).await;
        assert_eq!((error.kind(), error.not_dispatched()), (kind, None));
        assert_eq!(second.connections(), 0);
    }
}

#[tokio::test]
async fn a_backend_below_the_floor_is_never_called() {
    let first = backend(described(|it| it.isolation = "container".to_owned()), runs).await;
    let second = backend(description(), runs).await;
    let both = pool(&[&first, &second]);
    let placed = both.run_javascript("1").floor(Tier::Kernel).send().await.unwrap();
    assert_eq!(
        (placed.choice.backend.as_str(), placed.choice.retried.len()),
        ("second", 0)
    );
    assert_eq!(sent(&first).len(), 0);

    let named = both.requiring(Requirement::new().backend("first"));
    let error = named.run_javascript("1").floor(Tier::Kernel).send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code(), error.not_dispatched()),
        (ErrorKind::NoBackend, Code::Unimplemented, Some(Refusal::Unsupported))
    );
    assert!(error.choice().is_none());
    assert!(
        error
            .message()
            .contains("first: its tier is container, and the floor is kernel"),
        "{error}"
    );
    assert!(
        error.message().contains("second: backend \"first\" is required"),
        "{error}"
    );
    assert_eq!((sent(&first).len(), sent(&second).len()), (0, 1));

    let nobody = both.requiring(Requirement::new().backend("third"));
    let error = refused_by(&nobody).await;
    assert!(
        error.message().contains("third: the pool has no backend of this name"),
        "{error}"
    );
}

#[tokio::test]
async fn the_stronger_floor_is_written_onto_the_request() {
    let server = backend(description(), runs).await;
    let pool = pool(&[&server]).requiring(Requirement::new().floor(Tier::Container));
    pool.run_javascript("1").any_tier().send().await.unwrap();
    pool.run_javascript("1").floor(Tier::Process).send().await.unwrap();
    pool.run_javascript("1").floor(Tier::Kernel).send().await.unwrap();
    let floors: Vec<_> = sent(&server)
        .into_iter()
        .map(|request| request.minimum_isolation)
        .collect();
    assert_eq!(floors, ["container", "container", "kernel"]);
}

#[tokio::test]
async fn what_a_backend_says_it_cannot_do_is_not_asked_of_it() {
    let cannot = backend(
        described(|it| {
            it.sandbox = "wasm".to_owned();
            (it.supports_project, it.supports_module) = (false, false);
            (it.supports_javascript_grants, it.supports_project_grants) = (false, false);
        }),
        runs,
    )
    .await;
    let can = backend(description(), runs).await;
    let both = pool(&[&cannot, &can]);
    let project = || ProjectRequest::new().step("true");
    let on = |placed: plimsoll_client::placement::Choice| placed.backend;
    assert_eq!(
        on(both.run_project(project()).any_tier().send().await.unwrap().choice),
        "second"
    );
    assert_eq!(
        on(both.run_module(module()).any_tier().send().await.unwrap().choice),
        "second"
    );
    let granted = both
        .run_javascript("1")
        .grant_profile("crm")
        .any_tier()
        .send()
        .await
        .unwrap();
    assert_eq!(on(granted.choice), "second");
    let required = both.requiring(Requirement::new().grant());
    assert_eq!(
        on(required.run_javascript("1").any_tier().send().await.unwrap().choice),
        "second"
    );
    let docker = both.requiring(Requirement::new().provider("docker"));
    assert_eq!(
        on(docker.run_javascript("1").any_tier().send().await.unwrap().choice),
        "second"
    );
    assert_eq!(
        on(both.run_javascript("1").any_tier().send().await.unwrap().choice),
        "first"
    );
    assert_eq!(sent(&cannot).len(), 1);

    // No module carries a grant, on any backend.
    let error = required.run_module(module()).any_tier().send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::NoBackend, Some(Refusal::Unsupported))
    );
    assert_eq!(error.message().matches("supports no grant").count(), 1, "{error}");
    assert!(error.message().contains("first: it does not run modules"), "{error}");
}

#[tokio::test]
async fn a_default_profile_of_one_client_asks_for_grants_there_only() {
    let server = backend(described(|it| it.supports_javascript_grants = false), runs).await;
    let granted = server.builder().javascript_grant("crm").build().unwrap();
    let pool = Pool::new([("granted", granted), ("plain", server.client())], LONG).unwrap();
    let placed = pool.run_javascript("1").any_tier().send().await.unwrap();
    assert_eq!(placed.choice.backend, "plain");
    let placed = pool
        .run_javascript("1")
        .grant_profile("")
        .any_tier()
        .send()
        .await
        .unwrap();
    assert_eq!(placed.choice.backend, "granted");
}

#[tokio::test]
async fn both_software_rules_must_accept_and_travel_as_one() {
    let first = backend(
        described(|it| {
            let other = pb::PayloadEnvironment {
                software_identity: OTHER.to_owned(),
                ..Default::default()
            };
            it.javascript_environment = Some(other).into();
        }),
        runs,
    )
    .await;
    let second = backend(description(), runs).await;
    let both = pool(&[&first, &second]);
    let exact = both
        .run_javascript("1")
        .software(SoftwareRule::exact(SOFTWARE).unwrap());
    let placed = exact.any_tier().send().await.unwrap();
    assert_eq!(placed.choice.backend, "second");
    let record = placed.value.evidence.record.unwrap();
    assert!(!record.software_rule_id.is_empty(), "{record:?}");
    assert_eq!(sent(&first).len(), 0);

    let approved = Requirement::new().software(SoftwareRule::approved([OTHER, SOFTWARE]).unwrap());
    let narrowed = both.requiring(approved);
    let call = narrowed
        .run_javascript("1")
        .software(SoftwareRule::approved(["elsewhere", SOFTWARE]).unwrap());
    call.any_tier().send().await.unwrap();
    let rule = sent(&second).pop().unwrap().software_rule.unwrap();
    assert_eq!(
        (rule.mode.as_str(), &rule.identities[..]),
        ("exact", &[SOFTWARE.to_owned()][..])
    );

    let call = narrowed
        .run_javascript("1")
        .software(SoftwareRule::exact("elsewhere").unwrap());
    let error = call.any_tier().send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::InvalidRequest, Some(Refusal::Request))
    );
}

#[tokio::test]
async fn an_answer_from_another_environment_is_an_error_with_the_result() {
    let promised = "docker-image:sha256:2222222222222222222222222222222222222222222222222222222222222222";
    let claims = described(|it| {
        let environment = pb::PayloadEnvironment {
            identity: promised.to_owned(),
            ..Default::default()
        };
        it.javascript_environment = Some(environment).into();
    });
    let first = backend(claims, runs).await;
    let second = backend(description(), runs).await;
    let pool = pool(&[&first, &second]).requiring(Requirement::new().environment(promised));
    let error = refused_by(&pool).await;
    assert_eq!(
        (error.kind(), error.code(), error.not_dispatched()),
        (ErrorKind::EnvironmentMismatch, Code::DataLoss, None)
    );
    assert_eq!(error.result().unwrap().evidence().environment, IMAGE);
    assert_eq!(error.choice().unwrap().backend, "first");
    assert_eq!(sent(&second).len(), 0);

    let nowhere = pool.requiring(Requirement::new().environment(""));
    assert_eq!(
        nowhere
            .run_project(ProjectRequest::new().step("true"))
            .any_tier()
            .send()
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NoBackend
    );
}

#[tokio::test]
async fn a_backend_that_comes_back_is_used_again() {
    let port = any_port().await;
    let address = port.local_addr().unwrap();
    let client = Client::builder(format!("http://{address}")).build().unwrap();
    let second = backend(description(), runs).await;
    let lifetime = Duration::from_millis(200);
    let pool = Pool::new([("first", client), ("second", second.client())], lifetime).unwrap();
    let run = || async { pool.run_javascript("1").any_tier().send().await.unwrap().choice };
    let answer = |received: &crate::common::Received| match describes(received) {
        true => bound(received, 200, to_json(&description())),
        false => runs(received),
    };

    drop(port);
    let down = run().await;
    assert_eq!((down.backend.as_str(), down.retried.len()), ("second", 0));

    // A failed description does not last: the next call asks again.
    let up = Server::answering_on(tokio::net::TcpListener::bind(address).await.unwrap(), answer);
    assert_eq!(run().await.backend, "first");
    assert_eq!(count(&up, "Describe"), 1);
    tokio::time::sleep(lifetime).await;
    assert_eq!(run().await.backend, "first");
    assert_eq!(count(&up, "Describe"), 2);
}

#[tokio::test]
async fn a_backend_that_goes_down_behind_its_description_costs_one_refusal() {
    let first = Server::raw(|mut stream| async move {
        // Describes itself, and ends every other connection before it has read anything.
        let mut start = [0; 64];
        let read = stream.peek(&mut start).await.unwrap_or(0);
        if String::from_utf8_lossy(&start[..read]).contains("/Describe ") {
            let received = read_request(&mut stream).await.expect("a request");
            drop(stream.write_all(&bound(&received, 200, to_json(&description()))).await);
        }
    })
    .await;
    let second = backend(description(), runs).await;
    // Bytes had left, so whether the call ran is not known, and nobody else is sent it.
    let error = refused_by(&pool(&[&first, &second])).await;
    assert_eq!((error.kind(), error.not_dispatched()), (ErrorKind::Transport, None));
    assert_eq!(second.connections(), 0);

    // Where no connection could be made, nothing had.
    let port = any_port().await;
    let gone = Client::builder(format!("http://{}", port.local_addr().unwrap()))
        .build()
        .unwrap();
    let describing = Server::answering_on(port, |received| bound(received, 200, to_json(&description())));
    let pool = Pool::new([("gone", gone), ("second", second.client())], LONG).unwrap();
    pool.refresh().await.unwrap();
    describing.close().await;
    let placed = pool.run_javascript("1").any_tier().send().await.unwrap();
    let refused = &placed.choice.retried[0];
    assert_eq!(
        (refused.backend.as_str(), refused.reason),
        ("gone", Refusal::Environment)
    );
    assert_eq!(refused.error.kind(), ErrorKind::Transport);
}

#[tokio::test]
async fn each_backend_sees_its_own_token_only() {
    let first = backend(description(), refuses("resource_exhausted", Some(6))).await;
    let second = backend(description(), runs).await;
    let with = |server: &Server, token: &str| server.builder().token(token).build().unwrap();
    let pool = Pool::new([("first", with(&first, "one")), ("second", with(&second, "two"))], LONG).unwrap();
    pool.run_javascript("1").any_tier().send().await.unwrap();
    for (server, token) in [(&first, "Bearer one"), (&second, "Bearer two")] {
        let received = server.received();
        assert_eq!(received.len(), 2);
        assert!(
            received
                .iter()
                .all(|request| request.header("authorization") == Some(token))
        );
    }
}

#[tokio::test]
async fn preference_orders_and_ties_stay_in_the_pools_order() {
    let slow = backend(described(|it| it.max_sessions_per_caller = 9), runs).await;
    let one = backend(description(), runs).await;
    let other = backend(description(), runs).await;
    let pool = pool(&[&slow, &one, &other]);
    let prefers =
        Requirement::new().prefer(|one, other| one.max_sessions_per_caller.cmp(&other.max_sessions_per_caller));
    let placed = pool
        .requiring(prefers)
        .run_javascript("1")
        .any_tier()
        .send()
        .await
        .unwrap();
    assert_eq!(placed.choice.backend, "second");
    assert_eq!([&slow, &one, &other].map(|server| count(server, "Describe")), [1, 1, 1]);
}

#[tokio::test]
async fn calls_at_once_share_one_question() {
    let server = backend(description(), runs).await;
    let pool = Arc::new(pool(&[&server]));
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                pool.run_javascript("1")
                    .any_tier()
                    .send()
                    .await
                    .map(|placed| placed.choice)
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().backend, "first");
    }
    assert_eq!((count(&server, "Describe"), sent(&server).len()), (1, 20));
}

#[tokio::test]
async fn an_older_description_never_replaces_a_newer_one() {
    let (asked, newer_is_out) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (first_asked, script_notify) = (Arc::new(Notify::new()), Arc::clone(&newer_is_out));
    let told = Arc::clone(&first_asked);
    let server = Server::raw(move |mut stream| {
        let (asked, newer_is_out, told) = (Arc::clone(&asked), Arc::clone(&script_notify), Arc::clone(&told));
        async move {
            let Some(received) = read_request(&mut stream).await else {
                return;
            };
            let answer = if !describes(&received) {
                runs(&received)
            } else if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                told.notify_one();
                newer_is_out.notified().await;
                let old = described(|it| it.isolation = "process".to_owned());
                bound(&received, 200, to_json(&old))
            } else {
                bound(&received, 200, to_json(&description()))
            };
            drop(stream.write_all(&answer).await);
        }
    })
    .await;
    let pool = pool(&[&server]);
    let older = tokio::spawn({
        let pool = pool.clone();
        async move { pool.refresh().await }
    });
    first_asked.notified().await;
    pool.refresh().await.unwrap();
    newer_is_out.notify_one();
    older.await.unwrap().unwrap();
    // With the older description this floor would rule the backend out.
    pool.run_javascript("1").floor(Tier::Kernel).send().await.unwrap();
}

#[tokio::test]
async fn refresh_asks_everybody_and_says_who_failed_first() {
    let fails = |_: &crate::common::Received| http(503, &[], "");
    let first = backend(description(), runs).await;
    let second = Server::answering(fails).await;
    let third = backend(described(|it| it.protocol = 5), runs).await;
    let error = pool(&[&first, &second, &third]).refresh().await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!([&first, &second, &third].map(Server::connections), [1, 1, 1]);

    let error = refused_by(&pool(&[&third])).await;
    assert_eq!(error.kind(), ErrorKind::NoBackend);
    assert!(error.message().contains("serves protocol 5"), "{error}");
}

#[tokio::test]
async fn a_cancelled_call_goes_nowhere_else() {
    let token = CancelToken::new();
    let cancel = token.clone();
    let first = backend(description(), move |received| {
        cancel.cancel();
        refuses("resource_exhausted", Some(6))(received)
    })
    .await;
    let second = backend(description(), runs).await;
    let both = pool(&[&first, &second]);
    let error = both
        .run_javascript("1")
        .any_tier()
        .cancel(&token)
        .send()
        .await
        .unwrap_err();
    // Either the refusal had wholly arrived when the token fired, or the call was cut.
    assert!(
        matches!(error.kind(), ErrorKind::AtCapacity | ErrorKind::RequestCanceled),
        "{error}"
    );
    assert_eq!(sent(&second).len(), 0);

    let silent = Server::raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let token = CancelToken::new();
    let pool = pool(&[&silent]);
    let call = pool.run_javascript("1").any_tier().cancel(&token).send();
    let (error, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    });
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestCanceled, Some(Refusal::Request))
    );
}

#[tokio::test]
async fn what_can_never_run_asks_nobody() {
    let server = backend(description(), runs).await;
    let error = pool(&[&server]).run_javascript("").any_tier().send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::InvalidRequest, Some(Refusal::Request))
    );
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_pool_needs_backends_with_names_of_their_own() {
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    let refused = |names: &[&str]| {
        let backends = names.iter().map(|name| (*name, client.clone()));
        Pool::new(backends, Duration::ZERO).map(drop).unwrap_err()
    };
    for names in [&[][..], &["a", " "][..], &[""][..], &["a", "b", "a"][..]] {
        let error = refused(names);
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::InvalidOption, None),
            "{names:?}"
        );
    }
    let pool = Pool::new([("a", client.clone()), ("A", client.clone())], Duration::ZERO).unwrap();
    assert_eq!(pool.names().collect::<Vec<_>>(), ["a", "A"]);
}
