//! Placement of sessions: opened once, wherever that works, and at home there.

use plimsoll_client::placement::Requirement;
use plimsoll_client::{CellRequest, ErrorKind, Refusal, Tier};
use plimsoll_wire::pb;

use crate::common::IMAGE;
use crate::common::fleet::{backend, described, description, pool, refuses};
use crate::common::keeper::{Keeper, count};

#[tokio::test]
async fn a_session_is_placed_once_and_stays() {
    let keeper = Keeper::new();
    let first = backend(description(), refuses("resource_exhausted", Some(6))).await;
    let second = backend(description(), move |received| keeper.honest(received)).await;
    let pool = pool(&[&first, &second]).requiring(Requirement::new().floor(Tier::Kernel));
    let placed = pool.open_session().any_tier().send().await.unwrap();
    assert_eq!(
        (placed.choice.backend.as_str(), placed.choice.retried[0].reason),
        ("second", Refusal::Capacity)
    );
    let session = placed.value;
    for _ in 0..3 {
        session.run_cell(CellRequest::javascript("1")).send().await.unwrap();
    }
    session.close().await.unwrap();
    assert_eq!((count(&first, "OpenSession"), count(&first, "SessionRun")), (1, 0));
    assert_eq!((count(&second, "OpenSession"), count(&second, "SessionRun")), (1, 3));
    let opens = second.received();
    let open = opens
        .iter()
        .find(|request| request.line.contains("/OpenSession "))
        .unwrap();
    assert!(String::from_utf8_lossy(&open.body).contains(r#""minimumIsolation":"kernel""#));
}

#[tokio::test]
async fn only_a_backend_that_keeps_sessions_is_asked_to_open_one() {
    let without = backend(described(|it| it.supports_sessions = false), refuses("internal", None)).await;
    let fails = backend(description(), refuses("internal", None)).await;
    let error = pool(&[&without]).open_session().any_tier().send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::NoBackend, Some(Refusal::Unsupported))
    );
    assert!(error.message().contains("it keeps no sessions"), "{error}");

    // An open that may have happened is not repeated elsewhere.
    let keeper = Keeper::new();
    let third = backend(description(), move |received| keeper.honest(received)).await;
    let error = pool(&[&without, &fails, &third])
        .open_session()
        .any_tier()
        .send()
        .await
        .unwrap_err();
    assert_eq!((error.code().as_str(), error.not_dispatched()), ("internal", None));
    assert_eq!(error.choice().unwrap().backend, "second");
    assert_eq!(third.connections(), 0);
}

#[tokio::test]
async fn every_call_of_a_session_is_held_to_the_required_environment() {
    let keeper = Keeper::new();
    let honest = backend(description(), move |received| keeper.honest(received)).await;
    let at_home = pool(&[&honest]).requiring(Requirement::new().environment(IMAGE));
    let session = at_home.open_session().any_tier().send().await.unwrap().value;
    session.run_cell(CellRequest::javascript("1")).send().await.unwrap();
    session.close().await.unwrap();

    let promised = "docker-image:sha256:2222222222222222222222222222222222222222222222222222222222222222";
    let claims = described(|it| {
        let environment = pb::PayloadEnvironment {
            identity: promised.to_owned(),
            ..Default::default()
        };
        it.session_environment = Some(environment).into();
    });
    let keeper = Keeper::new();
    let elsewhere = backend(claims, move |received| keeper.honest(received)).await;
    let pool = pool(&[&elsewhere]).requiring(Requirement::new().environment(promised));
    let session = pool.open_session().any_tier().send().await.unwrap().value;
    let error = session.run_cell(CellRequest::javascript("1")).send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::EnvironmentMismatch, None)
    );
    assert_eq!(error.result().unwrap().evidence().environment, IMAGE);
    // Its record is in the chain all the same: the call ran.
    assert_eq!(session.calls(), 1);
    session.close().await.unwrap();
}
