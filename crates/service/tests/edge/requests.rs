//! What is wrong with a request before any handler sees it.

use plimsoll_core::Reason;

use crate::support::*;

#[tokio::test]
async fn malformed_json_is_invalid_argument_and_marked_in_the_header() {
    let server = Server::open().await;
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    for body in [
        "{",
        "",
        "[]",
        "\u{feff}{}",
        r#"{"traceId":"a","traceId":"a"}"#,
        r#"{"traceId":"a","trace_id":"b"}"#,
        r#"{"javascript":{"code":"a"},"javascript":{"code":"b"}}"#,
        r#"{"javascript":{"grantProfile":"a","grant_profile":"b"}}"#,
        r#"{"javascript":{},"project":{}}"#,
        r#"{"unknown":"\ud800"}"#,
        r#"{"unknown":NaN}"#,
        r#"{"protocol":"four"}"#,
        "{} {}",
        &deep,
    ] {
        let reply = server.ask(post("Run", body)).await;
        assert_eq!(
            reply.outcome(),
            (400, "invalid_argument".into(), Some("request"), None),
            "{body}"
        );
        assert_eq!(reply.all("plimsoll-request-id"), [ID]);
    }
    let named = server.ask(post("Run", r#"{"javascript":{"code":5}}"#)).await;
    assert!(
        named.json()["message"]
            .as_str()
            .unwrap()
            .contains("javascript.code: expected a string"),
        "{named:?}"
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn headers_that_say_two_things_or_nothing_known_are_refused() {
    let server = Server::open().await;
    let refused: &[&[(&str, &str)]] = &[
        &[JSON, ("connect-protocol-version", "2")],
        &[
            JSON,
            ("connect-protocol-version", "1"),
            ("connect-protocol-version", "1"),
        ],
        &[JSON, ("connect-timeout-ms", "abc")],
        &[JSON, ("connect-timeout-ms", "")],
        &[JSON, ("connect-timeout-ms", "12345678901")],
        &[JSON, ("connect-timeout-ms", "1"), ("connect-timeout-ms", "1")],
        &[JSON, JSON],
        &[JSON, ("content-encoding", "identity"), ("content-encoding", "identity")],
    ];
    for headers in refused {
        let reply = server.ask(post_with("Run", headers, &snippet("1"))).await;
        assert_eq!(
            reply.outcome(),
            (400, "invalid_argument".into(), Some("request"), None),
            "{headers:?}"
        );
    }
    assert_eq!(server.runs(), 0);
    let good = [
        JSON,
        ("connect-protocol-version", "1"),
        ("connect-timeout-ms", "9999999999"),
        ("content-encoding", "identity"),
    ];
    assert_eq!(server.ask(post_with("Run", &good, &snippet("1"))).await.status, 200);
}

#[tokio::test]
async fn a_deadline_already_passed_is_marked_capacity_and_nothing_runs() {
    let server = Server::open().await;
    let reply = server
        .ask(post_with("Run", &[JSON, ("connect-timeout-ms", "0")], &snippet("1")))
        .await;
    assert_eq!(
        reply.outcome(),
        (504, "deadline_exceeded".into(), None, Some(Reason::Capacity))
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_deadline_is_the_handlers_to_keep() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(post_with(
        "Run",
        &[JSON, ("connect-timeout-ms", "50")],
        &snippet("wait"),
    ))
    .await;
    server.running(1).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    server.fake.release.notify_one();
    assert_eq!(wire.reply().await.status, 200, "the edge ends no call");
}

#[tokio::test]
async fn a_query_string_is_ignored_and_an_empty_binary_body_is_the_default_message() {
    let server = Server::open().await;
    let request = post("Describe", "{}").replacen("/Describe", "/Describe?message=%7B%7D&encoding=json", 1);
    assert_eq!(server.ask(request).await.status, 200);
    let reply = server
        .ask(post_with("Describe", &[("content-type", "application/proto")], ""))
        .await;
    assert_eq!(reply.status, 200);
    let reply = server
        .ask(post_with("Run", &[("content-type", "application/proto")], "{}"))
        .await;
    assert_eq!(reply.outcome(), (400, "invalid_argument".into(), Some("request"), None));
}

#[tokio::test]
async fn transfer_codings_other_than_chunked_and_folded_headers_end_the_connection() {
    let server = Server::open().await;
    for coding in [
        "gzip, chunked",
        "chunked, gzip",
        "gzip",
        "identity",
        "chunked, chunked",
        "chunked\r\ntransfer-encoding: chunked",
    ] {
        let mut wire = server.connect().await;
        wire.send(format!(
            "{}transfer-encoding: {coding}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
            head("Describe", &[JSON])
        ))
        .await;
        assert_eq!(wire.reply().await.status, 400, "{coding}");
        assert!(wire.closed().await.as_millis() < 1000, "{coding}");
    }
    let mut wire = server.connect().await;
    wire.send(format!(
        "{}x-folded: a\r\n b\r\ncontent-length: 2\r\n\r\n{{}}",
        head("Describe", &[JSON])
    ))
    .await;
    assert_eq!(wire.reply().await.status, 400);
    wire.closed().await;
    assert_eq!(server.fake.describes.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_request_hidden_behind_two_lengths_is_never_served() {
    let server = Server::open().await;
    let hidden = post("Describe", "{}");
    let chunked = format!("2\r\n{{}}\r\n0\r\n\r\n{hidden}");
    for lengths in [
        format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", chunked.len()),
        format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", chunked.len()),
        "content-length: 12\r\ntransfer-encoding: chunked\r\n".to_owned(),
    ] {
        let before = server.fake.describes.load(std::sync::atomic::Ordering::SeqCst);
        let mut wire = server.connect().await;
        wire.send(format!("{}{lengths}\r\n{chunked}", head("Describe", &[JSON])))
            .await;
        let first = wire.reply().await;
        assert!(matches!(first.status, 200 | 400), "{first:?}");
        let served = usize::from(first.status == 200);
        assert_eq!(wire.rest().await, b"", "one answer, then the end");
        assert_eq!(
            server.fake.describes.load(std::sync::atomic::Ordering::SeqCst) - before,
            served
        );
    }
}

#[tokio::test]
async fn a_header_block_over_32_kib_is_answered_431_or_closed() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(format!(
        "{}x-long: {}\r\n\r\n",
        head("Describe", &[JSON]),
        "a".repeat(40 * 1024)
    ))
    .await;
    assert!(
        wire.try_reply()
            .await
            .is_none_or(|reply| matches!(reply.status, 400 | 431))
    );
    wire.closed().await;
}

#[tokio::test]
async fn many_short_headers_below_32_kib_are_served() {
    let server = Server::open().await;
    let many: String = (0..4000).map(|_| "a:b\r\n").collect();
    let request = post("Describe", "{}").replacen("host: a\r\n", &format!("host: a\r\n{many}"), 1);
    assert!(request.len() < 32 * 1024);
    assert_eq!(server.ask(request).await.status, 200);
}

#[tokio::test]
async fn a_request_names_its_host_once_or_is_400_and_ends_its_connection() {
    let server = Setup::with_tokens().start().await;
    for host in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nHost: b\r\n",
        "host: me@a\r\n",
        "host: a b\r\n",
    ] {
        for path in ["/plimsoll.v1.SandboxService/Describe", "/healthz", "/nothing"] {
            let request = post_with("Describe", &[JSON, ALICE], "{}");
            let request = request.replacen("/plimsoll.v1.SandboxService/Describe", path, 1);
            let request = request.replacen("host: a\r\n", host, 1);
            let mut wire = server.connect().await;
            wire.send(format!("{request}{request}")).await;
            let reply = wire.reply().await;
            reply.refused_before_handler(400, "invalid_argument", "request");
            assert_eq!(reply.header("connection"), Some("close"), "{host:?} {path}");
            let told = reply.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(told.contains("the header host"), "{told}");
            assert_eq!(wire.rest().await, b"", "one answer, then the end: {host:?} {path}");
        }
    }
    assert_eq!(server.fake.describes.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn only_http_1_0_may_leave_the_host_out() {
    let server = Server::open().await;
    let older = post("Describe", "{}").replacen("HTTP/1.1", "HTTP/1.0", 1);
    let without = older.replacen("host: a\r\n", "", 1);
    for request in [&older, &without] {
        assert_eq!(server.ask(request.as_str()).await.status, 200, "{request}");
    }
    let twice = older.replacen("host: a\r\n", "host: a\r\nhost: a\r\n", 1);
    assert_eq!(server.ask(twice).await.status, 400);
    // A request may say that its target has no host.
    let empty = post("Describe", "{}").replacen("host: a\r\n", "host:\r\n", 1);
    assert_eq!(server.ask(empty).await.status, 200);
}
