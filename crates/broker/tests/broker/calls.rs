//! One call end to end: what is sent, what comes back, what the trace says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_broker::{Broker, BrokerAnswer, BrokerOptions};
use plimsoll_grants::mint::Credential;
use plimsoll_grants::route::Method;
use plimsoll_grants::trace::{CallObserver, CallRow};

use crate::support::{Run, Script, Step, TOKEN, answer, grant, ok, spec};

#[tokio::test]
async fn a_request_carries_our_headers_and_nothing_else() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /a", "POST /a", "DELETE /a"]);
    let answer = run.get("/a").await;
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
    assert_eq!(answer.content_type, "application/json");
    let agent = concat!("plimsoll-broker/", env!("CARGO_PKG_VERSION"));
    let common = |line: &str| {
        format!(
            "{line} HTTP/1.1\r\nhost: {}\r\nuser-agent: {agent}\r\naccept: application/json\r\naccept-encoding: gzip\r\nauthorization: Bearer {TOKEN}",
            upstream.address
        )
    };
    assert_eq!(upstream.seen()[0].head, common("GET /a"));
    run.call("DELETE", "/a", "").await;
    assert_eq!(upstream.seen()[1].head, common("DELETE /a"));
    run.call("POST", "/a", "").await;
    assert_eq!(upstream.seen()[2].head, common("POST /a") + "\r\ncontent-length: 0");
    run.call("POST", "/a", "null").await;
    let last = &upstream.seen()[3];
    assert_eq!(
        last.head,
        common("POST /a") + "\r\ncontent-type: application/json\r\ncontent-length: 4"
    );
    assert_eq!(last.body, b"null");
    assert_eq!(upstream.connections(), 1, "the connection is kept between calls");
}

#[tokio::test]
async fn without_a_minter_there_is_no_authorization() {
    let upstream = Script::always(ok()).await;
    let broker = Broker::open(grant(&upstream.origin(), &["GET /a"]), None, BrokerOptions::default()).unwrap();
    assert_eq!(Run(broker).status("/a").await, 200);
    assert_eq!(upstream.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn changing_what_a_grant_was_made_from_changes_no_grant() {
    let upstream = Script::always(ok()).await;
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    let run = Run::with(&spec, BrokerOptions::default());
    spec.allow.push(("GET".to_owned(), "/b".to_owned()));
    spec.max_calls = 1;
    spec.base_url = "http://127.0.0.1:1".to_owned();
    assert_eq!([run.status("/b").await, run.status("/a").await], [403, 200]);
}

#[tokio::test]
async fn redirects_are_handed_on_and_never_followed() {
    let upstream = Script::start(|seen| {
        let place = format!("Location: http://{}/b\r\n", seen.header("host").unwrap());
        vec![Step::Send(answer(302, &place, "moved"))]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /a", "GET /b"]);
    let answer = run.get("/a").await;
    assert_eq!((answer.status, &answer.body[..]), (302, &b"moved"[..]));
    assert_eq!(upstream.lines(), ["GET /a HTTP/1.1"]);
}

#[tokio::test]
async fn only_the_content_type_of_a_head_reaches_the_guest_and_cookies_are_not_kept() {
    let upstream = Script::start(|seen| {
        let kind = match seen.line().split(' ').nth(1).unwrap() {
            "/tab" => "Content-Type: text/html\tx\r\n",
            "/none" => "",
            "/two" => "Content-Type: text/a\r\nContent-Type: text/b\r\n",
            _ => "Content-Type: text/plain; charset=\"utf-8\"\r\n",
        };
        let head = format!("Set-Cookie: s=1\r\nX-Secret: y\r\n{kind}");
        vec![Step::Send(answer(200, &head, ""))]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    for (path, kind) in [
        ("/plain", "text/plain; charset=\"utf-8\""),
        ("/tab", "application/octet-stream"),
        ("/none", "application/octet-stream"),
        ("/two", "text/a"),
    ] {
        let answer = run.get(path).await;
        let expected = BrokerAnswer {
            status: 200,
            content_type: kind.parse().unwrap(),
            body: bytes::Bytes::new(),
        };
        assert_eq!(answer, expected, "{path}");
    }
    assert!(upstream.seen().iter().all(|seen| seen.header("cookie").is_none()));
}

#[tokio::test]
async fn the_trace_holds_templates_and_numbers_of_calls_that_were_sent() {
    let upstream = Script::start(|seen| {
        let status = if seen.line().contains("bad") { 404 } else { 201 };
        vec![Step::Send(answer(status, "", "12345"))]
    })
    .await;
    let run = Run::new(
        &upstream.origin(),
        &["GET /items/*", "POST /items/*", "GET /items/special"],
    );
    run.get("/items/special").await;
    run.call("POST", "/items/bad", "{\"a\":1}").await;
    run.get("/other").await;
    let trace = run.0.end().await.unwrap();
    let rows: Vec<_> = trace
        .rows
        .iter()
        .map(|row| {
            assert!(row.latency > Duration::ZERO && row.latency < Duration::from_secs(5));
            (
                row.seq,
                row.route().to_string(),
                row.status,
                row.delivered,
                row.req_bytes,
                row.resp_bytes,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (1, "GET /items/*".to_owned(), 201, true, 0, 5),
            (2, "POST /items/*".to_owned(), 404, true, 7, 5)
        ]
    );
    assert_eq!(
        (trace.dropped, trace.denied, trace.shed, trace.budget_refused),
        (0, 1, 0, false)
    );
    assert_eq!(trace.rows[1].method(), Method::Post);
    let shown = format!("{trace:?} {:?}", run.0);
    for secret in [TOKEN, "special", "bad", "{\\\"a"] {
        assert!(!shown.replace("/items/special", "").contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_run_that_called_nothing_has_no_trace() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    assert_eq!(run.0.end().await, None);
}

#[test]
fn a_run_without_a_grant_is_answered_503() {
    let answer = BrokerAnswer::no_grant();
    assert_eq!(answer.status, 503);
    assert!(answer.body.starts_with(b"no grant: "));
}

#[derive(Debug, Default)]
struct Rows(Mutex<Vec<(u32, u16)>>);

impl CallObserver for Rows {
    fn observed(&self, row: &CallRow) {
        self.0.lock().push((row.seq, row.status));
    }
}

#[tokio::test]
async fn calls_beyond_the_rows_are_sent_counted_and_observed() {
    let upstream = Script::always(ok()).await;
    let rows = Arc::new(Rows::default());
    let mut spec = spec(&upstream.origin(), &["GET /a"]);
    spec.max_calls = 300;
    let run = Run::with(
        &spec,
        BrokerOptions {
            observer: Some(Arc::clone(&rows) as Arc<dyn CallObserver>),
            ..BrokerOptions::default()
        },
    );
    for _ in 0..300 {
        assert_eq!(run.status("/a").await, 200);
    }
    let trace = run.trace();
    assert_eq!((trace.rows.len(), trace.dropped), (256, 44));
    assert_eq!(upstream.seen().len(), 300);
    assert_eq!(rows.0.lock().last(), Some(&(300, 200)));
    assert_eq!(rows.0.lock().len(), 300);
}

#[tokio::test]
async fn an_answer_that_repeats_the_credential_is_withheld() {
    let upstream = Script::start(|seen| {
        let echo = seen.header("authorization").unwrap_or_default().to_owned();
        vec![Step::Send(match seen.line().split(' ').nth(1).unwrap() {
            "/plain" => answer(200, "", &echo),
            "/inside" => answer(200, "", format!("{}{echo}{}", "x".repeat(70_000), "y".repeat(70_000))),
            "/gzip" => answer(200, "Content-Encoding: gzip\r\n", crate::faults::gzip(echo.as_bytes())),
            "/type" => answer(200, &format!("Content-Type: text/{echo}\r\n"), ""),
            "/head" => answer(200, &format!("X-Echo: {echo}\r\n"), "fine"),
            _ => answer(200, "", TOKEN.trim_end_matches('f')),
        })]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    for path in ["/plain", "/inside", "/gzip", "/type"] {
        let answer = run.get(path).await;
        assert_eq!(answer.status, 502, "{path}");
        assert!(answer.body.starts_with(b"answer refused: it repeats the credential"));
        let row = run.trace().rows.pop().unwrap();
        assert_eq!((row.status, row.delivered, row.resp_bytes), (200, false, 0));
    }
    assert_eq!(run.get("/head").await.body, "fine");
    assert_eq!(run.status("/almost").await, 200);
    assert_eq!(upstream.connections(), 1, "nothing is wrong with the connection");
}

#[tokio::test]
async fn a_credential_too_short_to_search_for_is_not_searched_for() {
    let upstream = Script::always(answer(200, "", "k")).await;
    let grant = grant(&upstream.origin(), &["GET /a"]);
    let broker = Broker::open(grant, Some(Credential::new("k")), BrokerOptions::default()).unwrap();
    assert_eq!(Run(broker).get("/a").await.body, "k");
}

#[tokio::test]
async fn a_call_is_sent_again_only_when_nothing_of_it_had_left() {
    // The upstream closes each connection after its answer without saying so beforehand.
    let upstream = Script::start(|_| vec![Step::Send(ok()), Step::Close]).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    for _ in 0..20 {
        assert_eq!(run.call("POST", "/a", "1").await.status, 200);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!((upstream.seen().len(), upstream.connections()), (20, 20));

    // This one takes the request and goes away: it may have acted, so the call is not repeated.
    let upstream = Script::start(|seen| {
        if seen.nth == 0 {
            vec![Step::Send(ok())]
        } else {
            vec![Step::Close]
        }
    })
    .await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    assert_eq!(run.call("POST", "/a", "1").await.status, 200);
    assert_eq!(run.call("POST", "/a", "2").await.status, 502);
    assert_eq!((upstream.seen().len(), upstream.connections()), (2, 1));
    assert_eq!(run.trace().rows[1].status, 0);
    assert_eq!(upstream.log.hangups.load(Ordering::SeqCst), 0);
}
