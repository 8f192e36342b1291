//! Sizes, counts and times.

use std::time::{Duration, Instant};

use plimsoll_broker::BrokerOptions;
use tokio::task::JoinSet;

use crate::support::{Pieces, Run, Script, Step, answer, ok, spec};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn an_answer_of_4_mib_is_delivered_and_one_byte_more_is_refused_whole() {
    let upstream = Script::start(|seen| {
        let size = 4 * MIB + usize::from(seen.line().contains("more"));
        vec![Step::Send(if seen.line().contains("chunked") {
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in vec![b'z'; size].chunks(60_000) {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            bytes
        } else {
            answer(200, "", vec![b'z'; size])
        })]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    for (path, status) in [
        ("/exact", 200),
        ("/more", 502),
        ("/chunked", 200),
        ("/chunked-more", 502),
    ] {
        let answer = run.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        let row = run.trace().rows.pop().unwrap();
        if status == 200 {
            assert_eq!(answer.body.len(), 4 * MIB);
            assert_eq!((row.status, row.delivered, row.resp_bytes), (200, true, 4 << 20));
        } else {
            assert!(
                answer
                    .body
                    .starts_with(b"answer refused: an answer may hold at most 4 MiB")
            );
            assert_eq!((row.status, row.delivered, row.resp_bytes), (200, false, 0));
        }
    }
}

#[tokio::test]
async fn a_request_body_of_1_mib_is_sent_and_one_byte_more_is_refused() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    assert_eq!(run.call("POST", "/a", vec![b'1'; MIB]).await.status, 200);
    assert_eq!(upstream.seen()[0].body.len(), MIB);
    let refused = run.call("POST", "/a", vec![b'1'; MIB + 1]).await;
    assert_eq!(refused.status, 413);
    assert!(refused.body.starts_with(b"request body refused: "));
    assert_eq!(run.counts(), (1, 1, 0));
    assert_eq!(run.trace().rows[0].req_bytes, 1 << 20);
}

#[tokio::test]
async fn a_streamed_body_is_sent_whole_or_not_at_all() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let call = |pieces| run.0.call(b"POST", b"/a", Pieces::new(pieces));
    assert_eq!(
        call(vec![Ok(b"ab".to_vec()), Ok(vec![]), Ok(b"c".to_vec())])
            .await
            .status,
        200
    );
    assert_eq!(upstream.seen()[0].body, b"abc");
    assert_eq!(call(vec![Ok(vec![b'1'; MIB]), Ok(b"1".to_vec())]).await.status, 413);
    assert_eq!(call(vec![Ok(b"{".to_vec()), Err("gone")]).await.status, 413);
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(run.counts(), (1, 2, 0));
}

#[tokio::test]
async fn every_call_spends_the_budget_and_the_one_past_it_is_refused() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    for turn in 0..256 {
        let (path, status) = if turn % 2 == 0 { ("/bad", 403) } else { ("/a", 200) };
        assert_eq!(run.status(path).await, status);
    }
    assert!(!run.trace().budget_refused);
    for _ in 0..3 {
        let answer = run.get("/a").await;
        assert_eq!(answer.status, 429);
        assert!(answer.body.starts_with(b"call budget used up: "));
    }
    assert_eq!(run.counts(), (128, 131, 0));
    assert!(run.trace().budget_refused);
}

#[tokio::test]
async fn the_17th_call_at_once_is_refused_and_does_not_wait() {
    let upstream = Script::start(|_| vec![Step::Sleep(Duration::from_millis(400)), Step::Send(ok())]).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let run = run.clone();
        calls.spawn(async move { run.status("/a").await });
    }
    while upstream.seen().len() < 16 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let started = Instant::now();
    let refused = run.get("/a").await;
    assert_eq!(refused.status, 429);
    assert!(refused.body.starts_with(b"too many calls at once: "));
    assert!(started.elapsed() < Duration::from_millis(100));
    assert_eq!(calls.join_all().await, [200; 16]);
    assert_eq!(run.status("/a").await, 200, "the slots are free again");
    assert_eq!(run.counts(), (17, 1, 0));
    assert_eq!(upstream.connections(), 16);
}

#[tokio::test]
async fn an_upstream_that_hangs_or_drips_is_left_at_the_time_limit() {
    for (head, status) in [
        (&b""[..], 0),
        (b"HTTP/1.1 200 OK\r\nContent-", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 200),
    ] {
        let upstream = Script::start(move |_| {
            // A slow loris: a byte now and then, for ever.
            let mut steps = vec![Step::Send(head.to_vec())];
            for _ in 0..3 {
                steps.extend([Step::Sleep(Duration::from_millis(200)), Step::Send(b"x".to_vec())]);
            }
            if head.is_empty() {
                steps.clear();
            }
            steps.push(Step::Hang);
            steps
        })
        .await;
        let mut spec = spec(&upstream.origin(), &["GET /a"]);
        spec.timeout_sec = 1;
        let run = Run::with(&spec, BrokerOptions::default());
        let started = Instant::now();
        let answer = run.get("/a").await;
        let took = started.elapsed();
        assert_eq!(answer.status, 502);
        assert!(answer.body.starts_with(b"no answer in time: "));
        assert!(
            (Duration::from_millis(990)..Duration::from_millis(1900)).contains(&took),
            "{took:?}"
        );
        let row = run.trace().rows.pop().unwrap();
        assert_eq!((row.status, row.delivered), (status, false));
        assert!(row.latency >= Duration::from_millis(990));
    }
}

#[tokio::test]
async fn route_caps_hold_under_parallel_calls_and_in_any_case() {
    let upstream = Script::always(ok()).await;
    for order in [
        ["POST /v2/*/run", "POST /v2/ep1/run"],
        ["POST /v2/ep1/run", "POST /v2/*/run"],
    ] {
        let mut spec = spec(&upstream.origin(), &order);
        spec.route_max_calls = vec![("POST /v2/ep1/run".to_owned(), 1)];
        let run = Run::with(&spec, BrokerOptions::default());
        let mut statuses = Vec::new();
        for path in ["/v2/ep1/run", "/v2/ep1/run", "/v2/EP1/run", "/v2/ep2/run"] {
            statuses.push(run.call("POST", path, "").await.status);
        }
        assert_eq!(statuses, [200, 429, 429, 200]);
        assert_eq!(run.counts(), (2, 2, 0));
        assert!(!run.trace().budget_refused, "a route cap is not the budget");
    }
    let before = upstream.seen().len();
    let mut spec = spec(&upstream.origin(), &["GET /a/*"]);
    spec.route_max_calls = vec![("GET /a/*".to_owned(), 5)];
    let run = Run::with(&spec, BrokerOptions::default());
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let run = run.clone();
        calls.spawn(async move { run.status("/a/x").await });
    }
    let statuses = calls.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 11);
    assert_eq!(upstream.seen().len() - before, 5);
}

#[tokio::test]
async fn calls_of_a_session_share_their_route_counts() {
    let upstream = Script::always(ok()).await;
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    spec.route_max_calls = vec![("GET /a".to_owned(), 2)];
    let options = BrokerOptions {
        caps: Some(std::sync::Arc::default()),
        ..BrokerOptions::default()
    };
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let run = Run::with(&spec, options.clone());
        statuses.push(run.status("/a").await);
        run.0.end().await;
    }
    assert_eq!(statuses, [200, 200, 429]);
}
