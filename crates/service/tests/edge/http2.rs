//! HTTP/2 by prior knowledge on the same port.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response, StatusCode};
use plimsoll_service::edge::Timeouts;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::*;

async fn connect(server: &Server) -> SendRequest<Bytes> {
    connect_with(server, 65_535).await.0
}

/// A connection whose answers may be this long before they have been read, and the task that ends with it.
async fn connect_with(server: &Server, window: u32) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(window)
        .handshake(stream)
        .await
        .unwrap();
    let serving = tokio::spawn(connection);
    (client.ready().await.unwrap(), serving)
}

/// Sends a Describe whose body is complete.
fn describe(client: &mut SendRequest<Bytes>, token: Option<&str>) -> ResponseFuture {
    let mut asked = request("Describe");
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        asked.headers_mut().insert("authorization", value);
    }
    let (response, mut body) = client.send_request(asked, false).unwrap();
    body.send_data(Bytes::from_static(b"{}"), true).unwrap();
    response
}

fn request(procedure: &str) -> Request<()> {
    Request::post(format!("http://a/plimsoll.v1.SandboxService/{procedure}"))
        .header("content-type", "application/json")
        .header("plimsoll-request-id", ID)
        .body(())
        .unwrap()
}

async fn whole(response: Response<RecvStream>) -> (StatusCode, HeaderMap, Vec<u8>) {
    let (parts, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.unwrap();
        stream.flow_control().release_capacity(data.len()).unwrap();
        body.extend_from_slice(&data);
    }
    (parts.status, parts.headers, body)
}

#[tokio::test]
async fn http2_is_served_on_cleartext_by_prior_knowledge() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    for _ in 0..2 {
        let (response, mut stream) = client.send_request(request("Run"), false).unwrap();
        stream.send_data(snippet("1").into(), true).unwrap();
        let (status, headers, body) = whole(response.await.unwrap()).await;
        assert_eq!(
            (status.as_u16(), headers["plimsoll-request-id"].to_str().unwrap()),
            (200, ID)
        );
        assert!(headers.get("plimsoll-not-dispatched").is_none() && headers.get("connection").is_none());
        assert!(String::from_utf8(body).unwrap().contains("NDIK"));
    }
}

#[tokio::test]
async fn a_refusal_before_the_end_of_the_body_is_complete_and_then_resets_the_stream_without_an_error() {
    let server = Setup::with_tokens().start().await;
    let mut client = connect(&server).await;
    let (response, mut stream) = client.send_request(request("Run"), false).unwrap();
    stream.send_data(Bytes::from_static(b"{"), false).unwrap();
    let (status, headers, body) = whole(response.await.unwrap()).await;
    assert_eq!(
        (status.as_u16(), headers["plimsoll-not-dispatched"].to_str().unwrap()),
        (401, "permission")
    );
    assert!(String::from_utf8(body).unwrap().contains("unauthenticated"));
    let reset = tokio::time::timeout(Duration::from_secs(2), poll_fn(|cx| stream.poll_reset(cx))).await;
    assert_eq!(reset.expect("reset within 2 s").unwrap(), Reason::NO_ERROR);
    // The connection serves the next stream.
    assert_eq!(describe(&mut client, Some("alice-token")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_declared_length_over_8_mib_is_refused_from_the_header_alone() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    let mut oversize = request("Run");
    oversize
        .headers_mut()
        .insert("content-length", "8388609".parse().unwrap());
    let (response, _stream) = client.send_request(oversize, false).unwrap();
    let (status, headers, _) = whole(response.await.unwrap()).await;
    assert_eq!(
        (status.as_u16(), headers["plimsoll-not-dispatched"].to_str().unwrap()),
        (429, "request")
    );
}

#[tokio::test]
async fn a_reset_stream_cancels_its_run_and_leaves_the_others_alone() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    let (_response, mut stream) = client.send_request(request("Run"), false).unwrap();
    stream.send_data(snippet("wait").into(), true).unwrap();
    server.running(1).await;
    stream.send_reset(Reason::CANCEL);
    let fake = &server.fake;
    eventually("the run is cancelled", || {
        fake.cancelled.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(describe(&mut client, None).await.unwrap().status(), 200);
}

#[tokio::test]
async fn one_connection_has_at_most_128_streams() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    assert_eq!(describe(&mut client, None).await.unwrap().status(), 200);
    assert_eq!(client.current_max_send_streams(), 128);
}

/// What became of 128 requests that were sent together on one connection, and whether it takes more.
async fn burst(server: &Server, token: Option<&str>, window: u32) -> (usize, usize, bool) {
    let (mut client, _) = connect_with(server, window).await;
    let sent: Vec<_> = (0..128).map(|_| describe(&mut client, token)).collect();
    let (mut answered, mut reset, mut held) = (0, 0, Vec::new());
    for response in sent {
        match response.await {
            Ok(response) => {
                answered += 1;
                held.push(response);
            }
            Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => reset += 1,
            Err(error) => panic!("{error}"),
        }
    }
    drop(held);
    // The end is announced one round trip ahead.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let open = match client.ready().await {
        Ok(mut client) => match client.send_request(request("Describe"), true) {
            Ok((response, _)) => response.await.is_ok(),
            Err(_) => false,
        },
        Err(_) => false,
    };
    (answered, reset, open)
}

#[tokio::test]
async fn a_stranger_gets_16_answers_on_a_connection_and_a_known_caller_as_many_as_there_are_streams() {
    let server = Setup::with_tokens().start().await;
    for window in [0, 1, 65_535] {
        assert_eq!(burst(&server, None, window).await, (16, 112, false), "window {window}");
        assert_eq!(
            burst(&server, Some("nobodys"), window).await,
            (16, 112, false),
            "window {window}"
        );
    }
    let many = Setup {
        max_concurrent: 128,
        ..Setup::with_tokens()
    }
    .start()
    .await;
    assert_eq!(burst(&many, Some("alice-token"), 65_535).await, (128, 0, true));
}

#[tokio::test]
async fn a_stranger_that_leaves_its_answers_unread_is_not_kept() {
    let server = Setup {
        timeouts: Timeouts {
            request: Duration::from_millis(500),
            ..Timeouts::RPC
        },
        ..Setup::with_tokens()
    }
    .start()
    .await;
    let (mut client, ended) = connect_with(&server, 0).await;
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(describe(&mut client, None).await.unwrap());
    }
    tokio::time::timeout(Duration::from_secs(3), ended)
        .await
        .expect("the connection ends")
        .unwrap()
        .ok();
}

/// A connection with room for 64 KiB of each answer, on which a long one has begun; and the task that ends with it.
async fn beginning_of_a_long_answer(
    timeouts: Timeouts,
) -> (
    SendRequest<Bytes>,
    Response<RecvStream>,
    JoinHandle<Result<(), h2::Error>>,
) {
    let server = Setup {
        timeouts,
        ..Setup::with_tokens()
    }
    .start()
    .await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(65_535)
        // Room for other answers beside the one that is not read.
        .initial_connection_window_size(1 << 20)
        .handshake(stream)
        .await
        .unwrap();
    let serving = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut asked = request("Run");
    asked
        .headers_mut()
        .insert("authorization", "Bearer alice-token".parse().unwrap());
    let (response, mut body) = client.send_request(asked, false).unwrap();
    body.send_data(snippet("long").into(), true).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    (client, response, serving)
}

#[tokio::test]
async fn an_answer_that_is_not_read_yet_does_not_make_its_connection_idle() {
    let (_client, response, _) = beginning_of_a_long_answer(Timeouts {
        idle: Duration::from_millis(300),
        ..Timeouts::RPC
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, _, body) = whole(response).await;
    assert!(body.len() > 16 * 1024 * 1024 / 3 * 4, "{}", body.len());
}

#[tokio::test]
async fn other_requests_give_an_answer_no_more_time() {
    let (mut client, unread, mut ended) = beginning_of_a_long_answer(Timeouts {
        write: Duration::from_secs(1),
        ..Timeouts::RPC
    })
    .await;
    let began = Instant::now();
    let mut answered = 0;
    while began.elapsed() < Duration::from_secs(5) && !ended.is_finished() {
        if let Ok(mut response) = describe(&mut client, Some("alice-token")).await {
            assert_eq!(response.status(), 200);
            answered += usize::from(response.body_mut().data().await.is_some_and(|data| data.is_ok()));
        }
        let _ = tokio::time::timeout(Duration::from_millis(200), &mut ended).await;
    }
    assert!(answered >= 3, "{answered}");
    assert!(ended.is_finished(), "the connection outlived the time for its answer");
    drop(unread);
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_nobody_elses() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    let mut ended = false;
    for _ in 0..20_000 {
        let Ok((_response, mut stream)) = client.send_request(request("Run"), false) else {
            ended = true;
            break;
        };
        stream.send_reset(Reason::CANCEL);
        match tokio::time::timeout(Duration::from_secs(2), client.clone().ready()).await {
            Ok(Ok(ready)) => client = ready,
            Ok(Err(_)) | Err(_) => {
                ended = true;
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(ended, "20 000 resets went through");
    assert_eq!(server.ask(post("Describe", "{}")).await.status, 200);
}

#[tokio::test]
async fn a_flood_of_pings_is_held_back_and_others_are_served() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::open().await;
    let mut flood = TcpStream::connect(server.address).await.unwrap();
    flood
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let pings = b"\0\0\x08\x06\0\0\0\0\0abcdefgh".repeat(4096);
    let mut held_back = false;
    let mut sent = 0_usize;
    // No answer is ever read, so a server that queued them all would take everything we write.
    while sent < 256 * 1024 * 1024 {
        match tokio::time::timeout(Duration::from_secs(1), flood.write(&pings)).await {
            Ok(Ok(count)) => sent += count,
            Ok(Err(_)) | Err(_) => {
                held_back = true;
                break;
            }
        }
    }
    assert!(held_back, "{sent} bytes of pings were taken");
    assert_eq!(server.ask(post("Describe", "{}")).await.status, 200);
}

#[tokio::test]
async fn a_header_list_over_32_kib_is_answered_431() {
    let server = Server::open().await;
    let mut client = connect(&server).await;
    let mut long = request("Describe");
    long.headers_mut()
        .insert("x-long", "a".repeat(40 * 1024).parse().unwrap());
    let (response, _) = client.send_request(long, true).unwrap();
    match response.await {
        Ok(response) => assert_eq!(response.status(), 431),
        Err(error) => assert!(error.is_reset() || error.is_go_away(), "{error}"),
    }
}
