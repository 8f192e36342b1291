//! The client without an async runtime (feature `blocking`).

use crate::common::keeper;
use std::time::Duration;

use plimsoll_client::{CancelToken, CellRequest, ErrorKind, Refusal, RunRequest, SessionEnd, Tier, blocking};

/// A daemon on threads of its own, so that the test's thread is free of any runtime.
fn daemon() -> (tokio::runtime::Runtime, crate::common::Server) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = runtime.block_on(crate::common::daemon(|_| ()));
    (runtime, server)
}

#[test]
fn calls_return_when_they_are_done_also_from_many_threads() {
    let (_runtime, server) = daemon();
    let client = blocking::Client::from(server.client());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let result = client.run_javascript("1").floor(Tier::Kernel).send().unwrap();
                assert_eq!(result.stdout_text(), "42\n");
            });
        }
    });
    client.exchange(RunRequest::javascript("1"), None).unwrap();
    let refused = client.run_javascript("").any_tier().send().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::InvalidRequest, Some(Refusal::Request))
    );
    assert_eq!(server.connections(), 5);
}

#[test]
fn another_thread_can_cancel() {
    let (runtime, _unused) = daemon();
    let server = runtime.block_on(crate::common::Server::raw(|stream| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(stream);
    }));
    let client = blocking::Client::from(server.client());
    let token = CancelToken::new();
    let other = token.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    let error = client.run_javascript("1").any_tier().cancel(&token).send().unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestCanceled, None)
    );
    thread.join().unwrap();
}

#[tokio::test]
async fn inside_an_async_runtime_it_refuses_instead_of_panicking() {
    let server = crate::common::daemon(|_| ()).await;
    let client = blocking::Client::from(server.client());
    let error = client.describe().unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::InvalidOption, Some(Refusal::Request))
    );
    assert_eq!(server.connections(), 0);
}

/// A daemon that keeps one session, on threads of its own.
fn keeper() -> (tokio::runtime::Runtime, crate::common::Server) {
    let (runtime, _unused) = daemon();
    let server = runtime.block_on(keeper::changing(|_, _| ()));
    (runtime, server)
}

#[test]
fn a_session_runs_one_call_after_the_other_also_from_many_threads() {
    let (_runtime, server) = keeper();
    let client = blocking::Client::from(server.client());
    let session = client.open_session().floor(Tier::Container).send().unwrap();
    assert_eq!(
        (session.fingerprint(), session.tier()),
        (keeper::FINGERPRINT, Some(Tier::Kernel))
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| session.run_cell(CellRequest::python("6 * 7")).send().unwrap());
        }
    });
    session.run_javascript("6 * 7").send().unwrap();
    assert_eq!(
        (session.calls(), session.records().len(), session.stopped()),
        (5, 5, None)
    );
    let closed = session.close().unwrap();
    assert!(closed.is_confirmed());
    assert_eq!((closed.summary().calls, closed.summary().end), (5, SessionEnd::Closed));
    assert_eq!(keeper::count(&server, "CloseSession"), 1);
}

#[test]
fn a_session_that_is_dropped_is_closed_there_and_then() {
    let (_runtime, server) = keeper();
    let client = blocking::Client::from(server.client());
    drop(client.open_session().any_tier().send().unwrap());
    assert_eq!(keeper::count(&server, "CloseSession"), 1);
}

#[test]
fn a_close_that_could_not_begin_gives_the_session_back() {
    let (runtime, server) = keeper();
    let client = blocking::Client::from(server.client());
    let session = client.open_session().any_tier().send().unwrap();
    let failed = runtime.block_on(async { session.close() }).unwrap_err();
    assert_eq!(
        (failed.error().kind(), failed.error().not_dispatched()),
        (ErrorKind::InvalidOption, Some(Refusal::Request))
    );
    assert_eq!(keeper::count(&server, "CloseSession"), 0);
    let session = blocking::Session::from(failed.into_session().unwrap());
    assert!(session.close().unwrap().is_confirmed());
    assert_eq!(keeper::count(&server, "CloseSession"), 1);
}

#[test]
fn an_open_that_was_cancelled_after_it_was_sent_returns_once_its_session_is_closed() {
    let (runtime, _unused) = daemon();
    let server = runtime.block_on(crate::common::Server::answering({
        let keeper = keeper::Keeper::new();
        move |received| {
            if matches!(keeper::asked(received), keeper::Asked::Open) {
                std::thread::sleep(Duration::from_millis(300));
            }
            keeper.honest(received)
        }
    }));
    let client = blocking::Client::from(server.client());
    let token = CancelToken::new();
    let other = token.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    let error = client.open_session().cancel(&token).any_tier().send().unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestCanceled, None)
    );
    assert_eq!(keeper::count(&server, "CloseSession"), 1);
    thread.join().unwrap();
}
