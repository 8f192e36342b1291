//! Bodies: held back, too large, compressed, and the slots that bound them.

use std::time::{Duration, Instant};

use plimsoll_core::Reason;
use plimsoll_service::edge::Timeouts;
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

/// Sends a head and a part of a body, then nothing: the answer must not wait for the rest.
async fn held_back(server: &Server, head: String, framing: &str) -> (Reply, Duration) {
    let mut wire = server.connect().await;
    let start = Instant::now();
    wire.send(format!("{head}{framing}")).await;
    let reply = wire.reply().await;
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(reply.header("connection"), Some("close"), "{reply:?}");
    let closed = wire.closed().await;
    (reply, closed)
}

const LENGTH: &str = "content-length: 100\r\n\r\n{}";
const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n";

#[tokio::test]
async fn a_refusal_never_waits_for_a_body_and_the_connection_ends_half_a_second_later() {
    let server = Setup::with_tokens().start().await;
    for framing in [LENGTH, CHUNKED] {
        let (reply, closed) = held_back(&server, head("Run", &[JSON]), framing).await;
        assert_eq!(
            reply.outcome(),
            (
                401,
                "unauthenticated".into(),
                Some("permission"),
                Some(Reason::Permission)
            )
        );
        assert!(closed < Duration::from_millis(1500), "{closed:?}");
        let carol = ("authorization", "Bearer carol-token");
        let (reply, _) = held_back(&server, head("Run", &[JSON, carol]), framing).await;
        assert_eq!(
            reply.outcome(),
            (
                403,
                "permission_denied".into(),
                Some("permission"),
                Some(Reason::Permission)
            )
        );
        let (reply, _) = held_back(&server, head("Run", &[("content-type", "text/plain"), ALICE]), framing).await;
        assert_eq!(reply.status, 415);
        for path in ["/healthz", "/readyz", "/nowhere"] {
            let head = head("Run", &[JSON]).replacen("/plimsoll.v1.SandboxService/Run", path, 1);
            held_back(&server, head, framing).await;
        }
    }
    let (reply, _) = held_back(
        &server,
        head("Run", &[JSON, ALICE]),
        "content-length: 8388609\r\n\r\n{}",
    )
    .await;
    assert_eq!(
        reply.outcome(),
        (429, "resource_exhausted".into(), Some("request"), Some(Reason::Request))
    );
    assert_eq!(reply.all("plimsoll-request-id"), [ID]);
}

#[tokio::test]
async fn after_a_refusal_the_connection_is_read_half_a_second_longer_and_no_more() {
    let server = Setup::with_tokens().start().await;
    let mut wire = server.connect().await;
    wire.send(format!("{}{LENGTH}", head("Run", &[JSON]))).await;
    assert_eq!(wire.reply().await.status, 401);
    let start = Instant::now();
    // Once the server's socket is closed, its kernel answers further bytes with a reset.
    while wire.stream.write_all(b" ").await.is_ok() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "still read after {:?}",
            start.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_answer_survives_a_body_that_keeps_coming() {
    let server = Setup::with_tokens().start().await;
    let mut wire = server.connect().await;
    wire.send(format!("{}content-length: 8000000\r\n\r\n", head("Run", &[JSON])))
        .await;
    // Far more than socket buffers hold: closing at once would reset the connection and lose the answer.
    wire.send(vec![b' '; 4 * 1024 * 1024]).await;
    assert_eq!(wire.reply().await.status, 401);
}

#[tokio::test]
async fn a_body_over_8_mib_is_refused_however_it_comes_and_one_of_8_mib_is_read() {
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(format!("{}transfer-encoding: chunked\r\n\r\n", head("Run", &[JSON])))
        .await;
    wire.send(format!("{:x}\r\n", 8 * 1024 * 1024 + 1)).await;
    wire.send(vec![b' '; 8 * 1024 * 1024 + 1]).await;
    let reply = wire.reply().await;
    reply.refused_before_handler(429, "resource_exhausted", "request");

    let body = format!("{{{}}}", " ".repeat(8 * 1024 * 1024 - 2));
    let reply = server.ask(post("Describe", &body)).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_refused_and_nothing_runs() {
    let server = Setup::with_timeouts(Timeouts {
        request: Duration::from_millis(300),
        ..Timeouts::RPC
    })
    .start()
    .await;
    let body = snippet("1");
    for framing in [
        format!("content-length: {}\r\n\r\n{}", body.len() + 1, body),
        CHUNKED.to_owned(),
    ] {
        let mut wire = server.connect().await;
        let start = Instant::now();
        wire.send(format!("{}{framing}", head("Run", &[JSON]))).await;
        let reply = wire.reply().await;
        reply.refused_before_handler(504, "deadline_exceeded", "request");
        assert!(start.elapsed() > Duration::from_millis(250), "{:?}", start.elapsed());
        wire.closed().await;
    }
    assert_eq!(server.runs(), 0);
    assert_eq!(Timeouts::RPC.request, Duration::from_secs(30));
}

#[tokio::test]
async fn the_time_for_a_body_counts_from_the_first_byte_of_its_request() {
    let server = Setup::with_timeouts(Timeouts {
        request: Duration::from_millis(600),
        ..Timeouts::RPC
    })
    .start()
    .await;
    let mut wire = server.connect().await;
    wire.send(post("Describe", "{}")).await;
    assert_eq!(wire.reply().await.status, 200);
    // Time between two requests is nobody's: it does not count.
    tokio::time::sleep(Duration::from_millis(800)).await;
    wire.send(head("Describe", &[JSON])).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let start = Instant::now();
    wire.send("content-length: 100\r\n\r\n{}").await;
    assert_eq!(wire.reply().await.status, 504);
    assert!(start.elapsed() < Duration::from_millis(400), "{:?}", start.elapsed());
}

async fn encoded(server: &Server, encoding: &str, body: &[u8]) -> Reply {
    server
        .ask(post_bytes("Describe", &[JSON, ("content-encoding", encoding)], body))
        .await
}

#[tokio::test]
async fn gzip_is_one_member_and_other_encodings_are_501() {
    let server = Server::open().await;
    let whole = gzip(b"{}");
    for encoding in ["gzip", "GZIP", "Gzip"] {
        assert_eq!(encoded(&server, encoding, &whole).await.status, 200, "{encoding}");
    }
    for encoding in ["br", "zstd", "deflate", "gzip, gzip", "x"] {
        encoded(&server, encoding, &whole)
            .await
            .refused_before_handler(501, "unimplemented", "request");
    }
    let second_member = [whole.clone(), gzip(b"{}")].concat();
    let trailing = [whole.clone(), vec![0]].concat();
    for body in [&second_member[..], &trailing, &whole[..whole.len() - 1], b"{}"] {
        encoded(&server, "gzip", body)
            .await
            .refused_before_handler(400, "invalid_argument", "request");
    }
    // A body of no bytes is never decompressed; as JSON it is refused for what it is.
    encoded(&server, "gzip", b"")
        .await
        .refused_before_handler(400, "invalid_argument", "request");
}

#[tokio::test]
async fn a_gzip_bomb_is_refused() {
    let server = Server::open().await;
    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024]);
    assert!(bomb.len() < 1024 * 1024);
    encoded(&server, "gzip", &bomb)
        .await
        .refused_before_handler(429, "resource_exhausted", "request");
}

#[tokio::test]
async fn half_sent_bodies_of_one_caller_take_no_slot_from_another() {
    let server = Setup {
        max_concurrent: 1,
        ..Setup::with_tokens()
    }
    .start()
    .await;
    let mut held = server.connect().await;
    held.send(format!("{}{LENGTH}", head("Run", &[JSON, ALICE]))).await;
    eventually("the slot is taken", || {
        server.page().contains("plimsoll_decode_slots_in_use 1\n")
    })
    .await;
    let reply = server.ask(post_with("Describe", &[JSON, ALICE], "{}")).await;
    assert_eq!(
        reply.outcome(),
        (
            429,
            "resource_exhausted".into(),
            Some("capacity"),
            Some(Reason::Capacity)
        )
    );
    assert_eq!(reply.all("plimsoll-request-id"), [ID]);
    assert_eq!(server.ask(post_with("Describe", &[JSON, BOB], "{}")).await.status, 200);
    let page_now = server.page();
    assert!(
        page_now.contains(r#"plimsoll_refused_total{reason="capacity",code="resource_exhausted"} 1"#),
        "{page_now}"
    );
    drop(held);
    eventually("the slot is given back", || {
        server.page().contains("plimsoll_decode_slots_in_use 0\n")
    })
    .await;
    assert_eq!(
        server.ask(post_with("Describe", &[JSON, ALICE], "{}")).await.status,
        200
    );
}

#[tokio::test]
async fn a_running_call_holds_no_slot() {
    let server = Setup {
        max_concurrent: 1,
        ..Setup::with_tokens()
    }
    .start()
    .await;
    let mut first = server.connect().await;
    first.send(post_with("Run", &[JSON, ALICE], &snippet("wait"))).await;
    server.running(1).await;
    assert_eq!(
        server.ask(post_with("Run", &[JSON, ALICE], &snippet("1"))).await.status,
        200
    );
    server.fake.release.notify_one();
    assert_eq!(first.reply().await.status, 200);
}
