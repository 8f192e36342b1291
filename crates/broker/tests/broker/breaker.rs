//! What 429 and 503 mean for the calls after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_broker::BrokerOptions;

use crate::support::{Run, Script, Step, answer, ok, spec};

/// Answers calls of `/a` by `calls` and of `/ready` by `probes`, each in turn and then as the last one.
async fn upstream(calls: &[(u16, &str)], probes: &[(u16, &str)]) -> Script {
    let own =
        |list: &[(u16, &str)]| -> Vec<_> { list.iter().map(|(status, head)| answer(*status, head, "x")).collect() };
    let (calls, probes) = (own(calls), own(probes));
    let turns = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    Script::start(move |seen| {
        let (turn, list) = if seen.line().contains("/ready") {
            (&turns.1, &probes)
        } else {
            (&turns.0, &calls)
        };
        let turn = turn.fetch_add(1, Ordering::SeqCst);
        vec![Step::Send(list[turn.min(list.len() - 1)].clone())]
    })
    .await
}

fn run(upstream: &Script, probe: bool) -> Run {
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    spec.health_check = probe.then(|| ("GET".to_owned(), "/ready".to_owned()));
    Run::with(&spec, BrokerOptions::default())
}

fn probes(upstream: &Script) -> usize {
    upstream.lines().iter().filter(|line| line.contains("/ready")).count()
}

async fn statuses(run: &Run, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(run.status("/a").await);
    }
    statuses
}

#[tokio::test]
async fn after_a_503_calls_are_shed_without_reaching_the_api() {
    let upstream = upstream(&[(503, "Retry-After: 10\r\n")], &[]).await;
    let run = run(&upstream, false);
    let first = run.get("/a").await;
    assert_eq!(
        (first.status, &first.body[..]),
        (503, &b"x"[..]),
        "the API's own answer is delivered"
    );
    for _ in 0..3 {
        let shed = run.get("/a").await;
        assert_eq!(shed.status, 503);
        assert!(shed.body.starts_with(b"API paused: "));
    }
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(run.counts(), (1, 0, 3));
}

#[tokio::test]
async fn a_pause_without_a_time_is_one_second() {
    for (status, head) in [
        (429, ""),
        (503, ""),
        (503, "Retry-After: x\r\n"),
        (429, "Retry-After: 0\r\n"),
    ] {
        let upstream = upstream(&[(status, head), (200, "")], &[]).await;
        let run = run(&upstream, false);
        assert_eq!(statuses(&run, 2).await, [status, 503]);
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(run.status("/a").await, 503);
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(run.status("/a").await, 200);
        assert_eq!(run.counts(), (2, 0, 2));
    }
}

#[tokio::test]
async fn a_flapping_503_opens_a_window_each_time() {
    let upstream = upstream(&[(503, ""), (200, ""), (503, ""), (200, "")], &[]).await;
    let run = run(&upstream, false);
    assert_eq!(statuses(&run, 2).await, [503, 503]);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(statuses(&run, 4).await, [200, 503, 503, 503]);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(statuses(&run, 2).await, [200, 200]);
    assert_eq!(run.counts(), (5, 0, 3));
}

#[tokio::test]
async fn a_healthy_probe_ends_the_window_of_a_503() {
    let upstream = upstream(&[(503, "Retry-After: 30\r\n"), (200, "")], &[(201, "")]).await;
    let run = run(&upstream, true);
    assert_eq!(statuses(&run, 2).await, [503, 200]);
    assert_eq!(
        upstream.lines(),
        ["GET /a HTTP/1.1", "GET /ready HTTP/1.1", "GET /a HTTP/1.1"]
    );
    assert_eq!(run.counts(), (2, 0, 0), "a probe is neither traced nor charged");
    let probe = &upstream.seen()[1];
    assert_eq!(probe.header("accept"), Some("application/json"));
    assert!(probe.header("authorization").unwrap().starts_with("Bearer "));
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn an_unwell_probe_sheds_the_call_and_the_next_probe_waits_a_second() {
    let upstream = upstream(
        &[(503, "Retry-After: 30\r\n"), (200, "")],
        &[(500, ""), (302, ""), (200, "")],
    )
    .await;
    let run = run(&upstream, true);
    assert_eq!(statuses(&run, 4).await, [503, 503, 503, 503]);
    assert_eq!(probes(&upstream), 1);
    assert_eq!(run.counts(), (1, 0, 3));
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(run.status("/a").await, 503);
    assert_eq!(probes(&upstream), 2, "a redirect is not health and is not followed");
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(run.status("/a").await, 200);
}

#[tokio::test]
async fn a_429_is_never_probed_even_when_a_503_follows_in_its_window() {
    let upstream = upstream(
        &[(429, "Retry-After: 1\r\n"), (503, "Retry-After: 5\r\n"), (200, "")],
        &[(200, "")],
    )
    .await;
    let run = run(&upstream, true);
    assert_eq!(statuses(&run, 3).await, [429, 503, 503]);
    assert_eq!(probes(&upstream), 0);
    assert_eq!(run.counts(), (1, 0, 2));
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(
        statuses(&run, 2).await,
        [503, 200],
        "the window lapsed: the new 503 is probed"
    );
    assert_eq!(probes(&upstream), 1);
}

#[tokio::test]
async fn a_probe_answered_429_makes_it_a_quota_window() {
    let upstream = upstream(&[(503, "Retry-After: 2\r\n"), (200, "")], &[(429, "")]).await;
    let run = run(&upstream, true);
    assert_eq!(statuses(&run, 2).await, [503, 503]);
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert_eq!(run.status("/a").await, 503);
    assert_eq!(probes(&upstream), 1);
}

#[tokio::test]
async fn a_probe_that_hangs_is_left_after_two_seconds() {
    let upstream = Script::start(|seen| {
        if seen.line().contains("/ready") {
            vec![Step::Hang]
        } else {
            vec![Step::Send(answer(503, "Retry-After: 30\r\n", ""))]
        }
    })
    .await;
    let run = run(&upstream, true);
    assert_eq!(run.status("/a").await, 503);
    let started = std::time::Instant::now();
    assert_eq!(run.status("/a").await, 503);
    let took = started.elapsed();
    assert!(
        (Duration::from_millis(1990)..Duration::from_millis(2900)).contains(&took),
        "{took:?}"
    );
    assert_eq!(run.counts(), (1, 0, 1));
}

#[tokio::test]
async fn an_answer_that_is_not_delivered_opens_nothing() {
    let upstream = Script::start(|seen| {
        vec![Step::Send(if seen.nth == 0 && seen.line().contains("/large") {
            answer(503, "Retry-After: 30\r\n", vec![b'x'; 5 << 20])
        } else {
            ok()
        })]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    assert_eq!(run.status("/large").await, 502);
    assert_eq!(run.status("/a").await, 200);
    assert_eq!(run.counts(), (2, 0, 0));
}

#[tokio::test]
async fn shed_and_refused_calls_spend_the_budget_and_their_route_cap() {
    let upstream = upstream(&[(503, ""), (200, "")], &[]).await;
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    spec.max_calls = 4;
    spec.route_max_calls = vec![("GET /a".to_owned(), 2)];
    let run = Run::with(&spec, BrokerOptions::default());
    assert_eq!(statuses(&run, 5).await, [503, 503, 429, 429, 429]);
    assert_eq!(run.counts(), (1, 3, 1));
}
