//! When a session's calls, its open and its close are cut, queued, lost or dropped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::keeper::{Asked, Keeper, asked, count, error};
use crate::common::{Server, bound, read_request};
use plimsoll_client::{
    CancelToken, CellRequest, CellResult, Client, Closed, Error, ErrorKind, Refusal, Session, SessionEnd, Tier,
};
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(5);

async fn open(server: &Server) -> Session {
    server
        .client()
        .open_session()
        .floor(Tier::Container)
        .send()
        .await
        .unwrap()
}

async fn cell(session: &Session) -> Result<CellResult, Error> {
    session.run_cell(CellRequest::python("6 * 7")).send().await
}

/// Waits until it holds, and fails when that takes too long.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A daemon whose answers to one procedure wait for `go`, unless whoever asked hangs up first.
struct Held {
    server: Server,
    go: Arc<Notify>,
    /// Requests by procedure: opens, calls, closes.
    seen: Arc<[AtomicUsize; 3]>,
    /// Of them, those whose client was there to be answered.
    answered: Arc<[AtomicUsize; 3]>,
}

impl Held {
    async fn at(procedure: usize) -> Self {
        let (keeper, go) = (Keeper::new(), Arc::new(Notify::new()));
        let seen: Arc<[AtomicUsize; 3]> = Arc::default();
        let answered: Arc<[AtomicUsize; 3]> = Arc::default();
        let (held, counted, told) = (Arc::clone(&go), Arc::clone(&seen), Arc::clone(&answered));
        let server = Server::raw(move |mut stream| {
            let (keeper, held) = (Arc::clone(&keeper), Arc::clone(&held));
            let (counted, told) = (Arc::clone(&counted), Arc::clone(&told));
            async move {
                let Some(request) = read_request(&mut stream).await else {
                    return;
                };
                let which = match asked(&request) {
                    Asked::Open => 0,
                    Asked::Run(_) => 1,
                    Asked::Close => 2,
                };
                counted[which].fetch_add(1, Ordering::SeqCst);
                if which == procedure {
                    let mut more = [0];
                    tokio::select! {
                        () = held.notified() => {}
                        // Whoever waits for an answer sends nothing more, so this is the end of the connection.
                        _ = stream.read(&mut more) => return,
                    }
                }
                let answer = keeper.honest(&request);
                drop(stream.write_all(&answer).await);
                drop(stream.shutdown().await);
                told[which].fetch_add(1, Ordering::SeqCst);
            }
        })
        .await;
        Self {
            server,
            go,
            seen,
            answered,
        }
    }

    fn answered(&self, procedure: usize) -> usize {
        self.answered[procedure].load(Ordering::SeqCst)
    }

    fn seen(&self, procedure: usize) -> usize {
        self.seen[procedure].load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_queued_call_can_be_cancelled_unsent_and_the_one_after_it_runs() {
    let held = Held::at(1).await;
    let session = open(&held.server).await;
    let token = CancelToken::new();
    let second = session.run_cell(CellRequest::python("2")).cancel(&token);
    let (first, second, third) = tokio::join!(cell(&session), second.send(), async {
        until("the first call arrives", || held.seen(1) == 1).await;
        token.cancel();
        held.go.notify_one();
        held.go.notify_waiters();
        let third = cell(&session);
        tokio::pin!(third);
        loop {
            tokio::select! {
                done = &mut third => break done,
                () = sleep(Duration::from_millis(5)) => held.go.notify_one(),
            }
        }
    });
    first.unwrap();
    let canceled = second.unwrap_err();
    assert_eq!(
        (canceled.kind(), canceled.not_dispatched()),
        (ErrorKind::RequestCanceled, Some(Refusal::Request))
    );
    third.unwrap();
    assert_eq!((held.seen(1), session.calls(), session.stopped()), (2, 2, None));
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_cut_in_flight_stops_the_session() {
    let held = Held::at(1).await;
    let session = open(&held.server).await;
    let token = CancelToken::new();
    let call = session.run_cell(CellRequest::python("1")).cancel(&token).send();
    let (cut, ()) = tokio::join!(call, async {
        until("the call arrives", || held.seen(1) == 1).await;
        token.cancel();
    });
    let cut = cut.unwrap_err();
    assert_eq!((cut.kind(), cut.not_dispatched()), (ErrorKind::RequestCanceled, None));
    let refused = cell(&session).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::SessionStopped, Some(Refusal::Request))
    );
    assert_eq!(held.seen(1), 1);
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_stops_the_session_only_if_it_was_sent() {
    let held = Held::at(1).await;
    let session = open(&held.server).await;
    let never_polled = session.run_cell(CellRequest::python("1")).send();
    drop(never_polled);
    assert_eq!(session.stopped(), None);
    tokio::select! {
        _ = cell(&session) => panic!("the daemon holds the call"),
        () = until("the call arrives", || held.seen(1) == 1) => {}
    }
    assert!(session.stopped().is_some());
    assert_eq!(cell(&session).await.unwrap_err().kind(), ErrorKind::SessionStopped);
}

#[tokio::test]
async fn a_call_that_cannot_connect_leaves_the_session_as_it_was() {
    let keeper = Keeper::new();
    let serve = async |listener: &TcpListener| {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await.unwrap();
        stream.write_all(&keeper.honest(&request)).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::builder(format!("http://{address}")).build().unwrap();
    let (session, ()) = tokio::join!(client.open_session().any_tier().send(), serve(&listener));
    let session = session.unwrap();
    drop(listener);
    // Nobody listens there, and nobody else can have the port.
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind(address).unwrap();
    let refused = cell(&session).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::Transport, Some(Refusal::Environment))
    );
    assert_eq!((session.calls(), session.stopped()), (0, None));
    let listener = port.listen(8).unwrap();
    let (ran, ()) = tokio::join!(cell(&session), serve(&listener));
    ran.unwrap();
    let (closed, ()) = tokio::join!(session.close(), serve(&listener));
    assert!(closed.unwrap().is_confirmed());
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_was_sent_leaves_the_session_as_it_was() {
    let keeper = Keeper::new();
    let server = Server::answering(move |received| keeper.honest(received)).await;
    let session = open(&server).await;
    let token = CancelToken::new();
    token.cancel();
    let refused = session.run_cell(CellRequest::python("1")).cancel(&token).send().await;
    assert_eq!(refused.unwrap_err().not_dispatched(), Some(Refusal::Request));
    assert_eq!((count(&server, "SessionRun"), session.stopped()), (0, None));
    cell(&session).await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn an_open_that_is_cancelled_after_it_was_sent_is_closed_once_it_is_open() {
    let held = Held::at(0).await;
    let client = held.server.client();
    let token = CancelToken::new();
    let (canceled, ()) = tokio::join!(client.open_session().cancel(&token).any_tier().send(), async {
        until("the open arrives", || held.seen(0) == 1).await;
        token.cancel();
    });
    let canceled = canceled.unwrap_err();
    assert_eq!(
        (canceled.kind(), canceled.not_dispatched()),
        (ErrorKind::RequestCanceled, None)
    );
    assert_eq!(held.seen(2), 0);
    held.go.notify_one();
    until("the close arrives", || held.seen(2) == 1).await;
}

#[tokio::test]
async fn an_open_whose_future_is_dropped_is_closed_once_it_is_open() {
    let held = Held::at(0).await;
    let client = held.server.client();
    tokio::select! {
        _ = client.open_session().any_tier().send() => panic!("the daemon holds the open"),
        () = until("the open arrives", || held.seen(0) == 1) => {}
    }
    held.go.notify_one();
    until("the close arrives", || held.seen(2) == 1).await;
}

#[tokio::test]
async fn a_session_that_is_not_believed_is_said_to_be_closed_only_when_that_was_answered() {
    for (answers, words) in [(true, "; the session was closed"), (false, "was closed is not known")] {
        let keeper = Keeper::new();
        let server = Server::answering(move |received| match asked(received) {
            Asked::Open => {
                let mut opened = pb::OpenSessionResponse::from(Keeper::opened());
                opened.isolation = "process".to_owned();
                bound(received, 200, to_json(&opened))
            }
            _ if answers => keeper.honest(received),
            _ => Vec::new(),
        })
        .await;
        let error = server.client().open_session().floor(Tier::Vm).send().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::IsolationEvidenceMismatch, None)
        );
        assert!(error.message().ends_with(words), "{error}");
        assert_eq!(std::error::Error::source(&error).is_none(), answers);
        assert_eq!(count(&server, "CloseSession"), 1);
    }
}

#[tokio::test]
async fn an_open_that_was_never_sent_opens_nothing() {
    let held = Held::at(9).await;
    let client = held.server.client();
    let token = CancelToken::new();
    token.cancel();
    let refused = client
        .open_session()
        .cancel(&token)
        .any_tier()
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.not_dispatched()),
        (ErrorKind::RequestCanceled, Some(Refusal::Request))
    );
    let (listener, _waiting) = crate::common::hanging_port().await;
    let url = format!("http://{}", listener.local_addr().unwrap());
    let hanging = Client::builder(url).build().unwrap();
    let token = CancelToken::new();
    let later = token.clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(50)).await;
        later.cancel();
    });
    let refused = timeout(SOON, hanging.open_session().cancel(&token).any_tier().send())
        .await
        .unwrap();
    assert_eq!(refused.unwrap_err().not_dispatched(), Some(Refusal::Request));
    assert_eq!(held.server.connections(), 0);
}

#[tokio::test]
async fn a_session_that_is_dropped_is_closed_in_the_background() {
    let held = Held::at(9).await;
    drop(open(&held.server).await);
    until("the close arrives", || held.seen(2) == 1).await;
}

#[tokio::test]
async fn a_count_that_is_not_the_one_seen_is_a_broken_chain_and_no_session_is_left_to_close() {
    for (change, words) in [
        (
            (|closed| closed.calls = 9) as fn(&mut pb::CloseSessionResponse),
            "9 calls",
        ),
        (|closed| closed.last_record_sha256 = "0".repeat(64), "last record"),
        (|closed| closed.session = "0".repeat(64), "another session"),
    ] {
        let keeper = Keeper::new();
        let server = Server::answering(move |received| match asked(received) {
            Asked::Close => {
                let mut closed = pb::CloseSessionResponse::from(keeper.closed());
                change(&mut closed);
                bound(received, 200, to_json(&closed))
            }
            _ => keeper.honest(received),
        })
        .await;
        let session = open(&server).await;
        cell(&session).await.unwrap();
        let failed = session.close().await.unwrap_err();
        let error = failed.error();
        assert_eq!((error.kind(), error.not_dispatched()), (ErrorKind::Chain, None));
        assert!(error.message().contains(words), "{error}");
        assert!(error.summary().is_some());
        assert!(failed.into_session().is_none());
        assert_eq!(count(&server, "CloseSession"), 1);
    }
}

#[tokio::test]
async fn a_refused_close_gives_the_session_back_as_it_was() {
    let keeper = Keeper::new();
    let refusals = AtomicUsize::new(1);
    let server = Server::answering(move |received| match asked(received) {
        Asked::Close if refusals.swap(0, Ordering::SeqCst) == 1 => {
            error(received, 429, "resource_exhausted", &[("NotDispatched", &[8, 6])])
        }
        _ => keeper.honest(received),
    })
    .await;
    let failed = open(&server).await.close().await.unwrap_err();
    assert_eq!(failed.error().not_dispatched(), Some(Refusal::Capacity));
    let session = failed.into_session().unwrap();
    cell(&session).await.unwrap();
    assert!(session.close().await.unwrap().is_confirmed());
}

#[tokio::test]
async fn a_lost_close_is_sent_again_and_a_daemon_that_forgot_the_session_confirms_nothing() {
    for (forgets, confirmed) in [(true, false), (false, true)] {
        let keeper = Keeper::new();
        let closes = AtomicUsize::new(0);
        let server = Server::answering(move |received| match asked(received) {
            Asked::Close => match closes.fetch_add(1, Ordering::SeqCst) {
                0 => Vec::new(),
                _ if forgets => {
                    let details: [(&str, &[u8]); 2] = [("NotDispatched", &[8, 1]), ("SessionEnded", &[8, 9])];
                    error(received, 404, "not_found", &details)
                }
                _ => keeper.honest(received),
            },
            _ => keeper.honest(received),
        })
        .await;
        let session = open(&server).await;
        cell(&session).await.unwrap();
        let failed = session.close().await.unwrap_err();
        assert_eq!(
            (failed.error().kind(), failed.error().not_dispatched()),
            (ErrorKind::Transport, None)
        );
        let session = failed.into_session().unwrap();
        assert_eq!(cell(&session).await.unwrap_err().kind(), ErrorKind::SessionStopped);
        let closed = session.close().await.unwrap();
        assert_eq!(closed.is_confirmed(), confirmed);
        assert_eq!(closed.summary().calls, 1);
        if let Closed::Unconfirmed(summary) = closed {
            assert_eq!(summary.end, SessionEnd::NotFound);
        }
    }
}

#[tokio::test]
async fn a_close_whose_future_is_dropped_goes_on() {
    let held = Held::at(2).await;
    let session = open(&held.server).await;
    tokio::select! {
        _ = session.close() => panic!("the daemon holds the close"),
        () = until("the close arrives", || held.seen(2) == 1) => {}
    }
    // Long enough for a connection that is cut to be seen.
    sleep(Duration::from_millis(50)).await;
    held.go.notify_one();
    until("the close is answered", || held.answered(2) == 1).await;
    assert_eq!(held.seen(2), 1);
}

#[tokio::test]
async fn calls_of_many_tasks_go_one_after_the_other_in_their_order() {
    let keeper = Keeper::new();
    let server = Server::answering(move |received| keeper.honest(received)).await;
    let session = open(&server).await;
    let (a, b, c, d) = tokio::join!(cell(&session), cell(&session), cell(&session), cell(&session));
    let sequence = |result: Result<CellResult, Error>| result.unwrap().evidence.record.unwrap().sequence;
    assert_eq!([a, b, c, d].map(sequence), [1, 2, 3, 4]);
    assert_eq!(session.close().await.unwrap().summary().calls, 4);
}
