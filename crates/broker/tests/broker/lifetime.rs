//! The end of a run: nothing is sent after it, nothing is left of it.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_broker::BrokerOptions;
use tokio::sync::oneshot;

use crate::support::{Later, Run, Script, Step, answer, ok, spec};

async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("waited in vain");
}

#[tokio::test]
async fn the_end_cancels_calls_in_flight_and_refuses_later_ones() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let call = tokio::spawn({
        let run = run.clone();
        async move { run.get("/a").await }
    });
    until(|| upstream.seen().len() == 1).await;
    let started = Instant::now();
    let trace = run.0.end().await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(500));
    assert_eq!(trace.rows.len(), 1, "it may have reached the API");
    assert_eq!((trace.rows[0].status, trace.rows[0].delivered), (0, false));
    let cut = call.await.unwrap();
    assert_eq!(cut.status, 502);
    assert!(cut.body.starts_with(b"no answer: the run ended"));
    until(|| upstream.log.hangups.load(Ordering::SeqCst) == 1).await;
    let late = run.get("/a").await;
    assert_eq!(late.status, 503);
    assert!(late.body.starts_with(b"grant ended: "));
    assert_eq!(run.counts(), (1, 1, 0));
    assert_eq!(
        run.0.end().await.unwrap().rows,
        trace.rows,
        "ending twice is ending once"
    );
    upstream.all_closed().await;
}

#[tokio::test]
async fn a_body_that_is_still_arriving_at_the_end_is_never_sent() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let (send, body) = oneshot::channel();
    let call = tokio::spawn({
        let run = run.clone();
        async move { run.0.call(b"POST", b"/a", Later(body)).await }
    });
    tokio::task::yield_now().await;
    let trace = run.0.end().await.unwrap();
    let _ = send.send(Bytes::from_static(b"{}"));
    assert_eq!(call.await.unwrap().status, 503);
    assert_eq!((trace.rows.len(), trace.denied), (0, 1));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_and_in_the_trace() {
    for (head, status) in [(&b""[..], 0), (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 200)] {
        let upstream = Script::start(move |_| vec![Step::Send(head.to_vec()), Step::Hang]).await;
        let run = Run::new(&upstream.origin(), &["GET /a"]);
        let dropped = tokio::time::timeout(Duration::from_millis(50), run.get("/a")).await;
        assert!(dropped.is_err());
        until(|| upstream.log.hangups.load(Ordering::SeqCst) == 1).await;
        let row = run.trace().rows.pop().unwrap();
        assert_eq!((row.status, row.delivered), (status, false));
        assert_eq!(run.0.end().await.unwrap().rows.len(), 1);
        upstream.all_closed().await;
    }
}

#[tokio::test]
async fn a_probe_in_flight_ends_with_the_run() {
    let upstream = Script::start(|seen| {
        if seen.line().contains("/ready") {
            vec![Step::Hang]
        } else {
            vec![Step::Send(answer(503, "Retry-After: 9\r\n", ""))]
        }
    })
    .await;
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    spec.health_check = Some(("GET".to_owned(), "/ready".to_owned()));
    let run = Run::with(&spec, BrokerOptions::default());
    run.get("/a").await;
    let call = tokio::spawn({
        let run = run.clone();
        async move { run.status("/a").await }
    });
    until(|| upstream.seen().len() == 2).await;
    let started = Instant::now();
    let trace = run.0.end().await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(500));
    assert_eq!((trace.rows.len(), trace.denied, trace.shed), (1, 1, 0));
    assert_eq!(call.await.unwrap(), 503);
    upstream.all_closed().await;
}

#[tokio::test]
async fn the_end_waits_two_seconds_for_a_call_that_nobody_drives() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let mut call = pin!(run.get("/a"));
    tokio::select! {
        biased;
        _ = &mut call => panic!("the upstream hangs"),
        () = tokio::time::sleep(Duration::from_millis(30)) => {}
    }
    let started = Instant::now();
    assert_eq!(run.0.end().await, None, "its row is written when it is over");
    let took = started.elapsed();
    assert!(
        (Duration::from_millis(1950)..Duration::from_millis(2900)).contains(&took),
        "{took:?}"
    );
    assert_eq!(call.await.status, 502);
}

#[tokio::test]
async fn kept_connections_close_at_the_end_and_when_the_broker_is_dropped() {
    let upstream = Script::always(ok()).await;
    for by_end in [true, false] {
        let run = Run::new(&upstream.origin(), &["GET /a"]);
        assert_eq!(run.status("/a").await, 200);
        assert_eq!(upstream.log.open.load(Ordering::SeqCst), 1);
        if by_end {
            run.0.end().await;
            upstream.all_closed().await;
        } else {
            drop(run);
            upstream.all_closed().await;
        }
    }
}
