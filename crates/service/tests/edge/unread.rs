//! Answers that their callers leave unread: how many of them a daemon holds, and who is refused for it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use plimsoll_core::{Reason, RunRequest};
use plimsoll_wire::{pb, to_binary};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::*;

/// With two runs at once all callers may leave 64 MiB unread, and one caller 32: two answers of this size.
const LONG_ANSWER: usize = 16 * 1024 * 1024 / 3 * 4;

async fn two_at_once() -> Server {
    Setup {
        max_concurrent: 2,
        ..Setup::with_tokens()
    }
    .start()
    .await
}

/// A run with a long answer of which nothing but the first bytes has been read.
async fn unread(server: &Server, caller: (&str, &str)) -> Wire {
    let before = server.runs();
    let mut wire = server.connect().await;
    wire.send(post_with("Run", &[JSON, caller], &snippet("long"))).await;
    server.running(before + 1).await;
    let mut status = [0; 12];
    wire.stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    wire
}

async fn run(server: &Server, caller: (&str, &str)) -> Reply {
    server.ask(post_with("Run", &[JSON, caller], &snippet("1"))).await
}

/// Reads to the end of the answer that [`unread`] began, at a pace.
async fn read_slowly(wire: &mut Wire) -> usize {
    let (mut read, mut piece) = (0, vec![0; 1024 * 1024]);
    while read < LONG_ANSWER {
        read += wire.stream.read(&mut piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    read
}

#[tokio::test]
async fn who_leaves_its_answers_unread_gets_no_more_runs_until_it_has_read() {
    let server = two_at_once().await;
    let mut first = unread(&server, ALICE).await;
    assert_eq!(run(&server, ALICE).await.status, 200, "one answer is within the limit");
    let second = unread(&server, ALICE).await;
    let runs = server.runs();
    for procedure in ["Run", "Describe", "OpenSession", "SessionRun", "CloseSession"] {
        let reply = server.ask(post_with(procedure, &[JSON, ALICE], &snippet("1"))).await;
        let capacity = (
            429,
            "resource_exhausted".to_owned(),
            Some("capacity"),
            Some(Reason::Capacity),
        );
        assert_eq!(reply.outcome(), capacity, "{procedure}");
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains("left 32 MiB or more of its answers unread"),
            "{message}"
        );
    }
    assert_eq!((server.runs(), server.fake.describes.load(Ordering::SeqCst)), (runs, 0));
    assert_eq!(run(&server, BOB).await.status, 200, "another caller is served");

    // All of them together reach the limit of all: nobody's run, and no word of whose fault it is.
    let third = unread(&server, BOB).await;
    let reply = run(&server, BOB).await;
    assert_eq!((reply.status, reply.mark()), (429, Some("capacity")));
    assert!(
        reply.json()["message"]
            .as_str()
            .unwrap()
            .starts_with("callers have left")
    );
    drop(third);

    // The slow reader is not cut off, and has its place back with the last byte.
    assert!(read_slowly(&mut first).await >= LONG_ANSWER);
    eventually_served(&server, ALICE).await;
    drop(second);
}

#[tokio::test]
async fn an_answer_whose_connection_ends_is_no_longer_held() {
    let server = two_at_once().await;
    let left = [unread(&server, ALICE).await, unread(&server, ALICE).await];
    assert_eq!(run(&server, ALICE).await.status, 429);
    drop(left);
    eventually_served(&server, ALICE).await;
}

#[tokio::test]
async fn streams_of_http2_count_in_every_protocol() {
    let binary = to_binary(&pb::RunRequest::from(RunRequest::javascript("long")));
    let mut framed = vec![0];
    framed.extend(u32::try_from(binary.len()).unwrap().to_be_bytes());
    framed.extend(&binary);
    for (kind, body) in [
        ("application/json", snippet("long").into_bytes()),
        ("application/grpc", framed.clone()),
        ("application/grpc-web", framed.clone()),
    ] {
        let server = two_at_once().await;
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(0)
            .handshake::<_, Bytes>(TcpStream::connect(server.address).await.unwrap())
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let mut held = Vec::new();
        // A message of gRPC is 16 MiB and a little; one of JSON a third longer.
        for _ in 0..2 {
            let request = Request::post("http://a/plimsoll.v1.SandboxService/Run")
                .header("content-type", kind)
                .header("te", "trailers")
                .header(ALICE.0, ALICE.1)
                .body(())
                .unwrap();
            let (response, mut stream) = client.send_request(request, false).unwrap();
            stream.send_data(Bytes::from(body.clone()), true).unwrap();
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200, "{kind}");
            held.push(response);
        }
        assert_eq!(run(&server, ALICE).await.status, 429, "{kind}");
        assert_eq!(run(&server, BOB).await.status, 200, "{kind}");
        drop((held, client));
        connection.abort();
        eventually_served(&server, ALICE).await;
    }
}

async fn eventually_served(server: &Server, caller: (&str, &str)) {
    for _ in 0..200 {
        if run(server, caller).await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("not served within 5 s");
}
