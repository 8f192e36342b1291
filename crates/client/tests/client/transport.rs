//! Connections, deadlines, bounds, and what each failure says about having run.

use std::time::{Duration, Instant};

use crate::common::{Server, body, bound, hanging_port, honest, read_request};
use plimsoll_client::{Client, Error, ErrorKind, MAX_RESPONSE_BYTES, ProjectRequest, Refusal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::sleep;

const SHORT: Duration = Duration::from_millis(500);

async fn run(client: &Client) -> Result<(), Error> {
    client.run_javascript("1").any_tier().send().await.map(drop)
}

/// The error of one run and how long it took.
async fn failure(url: &str) -> (Error, Duration) {
    let client = Client::builder(url)
        .insecure_http(true)
        .request_timeout(SHORT)
        .build()
        .expect("a client");
    let start = Instant::now();
    let error = run(&client).await.expect_err("this run fails");
    (error, start.elapsed())
}

#[tokio::test]
async fn a_refused_connection_ran_nothing() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (error, _) = failure(&format!("http://{address}")).await;
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::Transport, Some(Refusal::Environment))
    );
    assert_eq!(error.http_status(), None);
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn a_name_that_does_not_resolve_ran_nothing() {
    let (error, took) = failure("http://no-such-host.invalid:1").await;
    // A slow resolver is cut at the deadline; either way nothing was sent.
    assert!(
        matches!(error.kind(), ErrorKind::Transport | ErrorKind::RequestTimeout),
        "{error}"
    );
    assert_eq!(error.not_dispatched(), Some(Refusal::Environment));
    assert!(took < SHORT + Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn a_connection_that_hangs_is_cut_at_the_deadline_and_ran_nothing() {
    let (listener, _waiting) = hanging_port().await;
    let (error, took) = failure(&format!("http://{}", listener.local_addr().unwrap())).await;
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestTimeout, Some(Refusal::Environment))
    );
    assert!((SHORT..SHORT + Duration::from_secs(1)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_tls_handshake_that_is_never_answered_ran_nothing() {
    let server = Server::raw(|stream| async move {
        sleep(Duration::from_secs(30)).await;
        drop(stream);
    })
    .await;
    let (error, took) = failure(&format!("https://{}", server.address)).await;
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::RequestTimeout, Some(Refusal::Environment))
    );
    assert!((SHORT..SHORT + Duration::from_secs(1)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_ran_nothing() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"] {
        let server = Server::raw(move |mut stream| async move {
            let mut hello = [0; 1024];
            drop(stream.read(&mut hello).await);
            drop(stream.write_all(answer.as_bytes()).await);
        })
        .await;
        let (error, _) = failure(&format!("https://{}", server.address)).await;
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::Transport, Some(Refusal::Environment))
        );
    }
}

#[tokio::test]
async fn a_trickled_answer_cannot_extend_the_deadline() {
    for trickle_from in [0, 200] {
        let server = Server::raw(move |mut stream| async move {
            let Some(request) = read_request(&mut stream).await else {
                return;
            };
            let answer = bound(&request, 200, body(honest(&request.run())));
            drop(stream.write_all(&answer[..trickle_from]).await);
            for byte in &answer[trickle_from..] {
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        let (error, took) = failure(&server.url()).await;
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::RequestTimeout, None),
            "from {trickle_from}"
        );
        assert!((SHORT..Duration::from_millis(1500)).contains(&took), "{took:?}");
    }
}

#[tokio::test]
async fn whatever_breaks_after_sending_may_have_run() {
    let half_answers = [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \u{b2}\r\n\r\n12",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12",
    ];
    for answer in half_answers {
        let server = Server::raw(move |mut stream| async move {
            drop(read_request(&mut stream).await);
            drop(stream.write_all(answer.as_bytes()).await);
        })
        .await;
        let (error, took) = failure(&server.url()).await;
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::Transport, None),
            "{answer:?}: {error}"
        );
        assert!(took < SHORT, "{answer:?} took {took:?}");
        assert_eq!(server.connections(), 1, "nothing is tried again");
    }
}

#[tokio::test]
async fn an_answer_stated_over_the_cap_is_refused_unread() {
    let server = Server::raw(|mut stream| async move {
        let Some(request) = read_request(&mut stream).await else {
            return;
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nPlimsoll-Request-Id: {}\r\nContent-Length: {}\r\n\r\n",
            request.id(),
            MAX_RESPONSE_BYTES + 1
        );
        drop(stream.write_all(head.as_bytes()).await);
        // The body never comes; a client that waited for it would run into its deadline.
        let mut rest = [0];
        drop(stream.read(&mut rest).await);
    })
    .await;
    let (error, took) = failure(&server.url()).await;
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::ResponseTooLarge, None)
    );
    assert_eq!(error.http_status(), Some(200));
    assert!(took < SHORT, "{took:?}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_at_the_cap() {
    let server = Server::raw(|mut stream| async move {
        drop(read_request(&mut stream).await);
        drop(
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await,
        );
        let mut chunk = b"10000\r\n".to_vec();
        chunk.extend_from_slice(&[b' '; 0x10000]);
        chunk.extend_from_slice(b"\r\n");
        while stream.write_all(&chunk).await.is_ok() {}
    })
    .await;
    let error = run(&server.client()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.not_dispatched()),
        (ErrorKind::ResponseTooLarge, None)
    );
}

#[tokio::test]
async fn an_answer_of_exactly_the_cap_is_read() {
    let padded = |extra: usize| {
        Server::answering(move |request| {
            let mut body = body(honest(&request.run()));
            body.resize(MAX_RESPONSE_BYTES + extra, b' ');
            bound(request, 200, body)
        })
    };
    run(&padded(0).await.client()).await.unwrap();
    assert_eq!(
        run(&padded(1).await.client()).await.unwrap_err().kind(),
        ErrorKind::ResponseTooLarge
    );
}

#[tokio::test]
async fn a_refusal_before_the_whole_request_was_read_is_heard() {
    let server = Server::raw(|mut stream| async move {
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let head = String::from_utf8_lossy(&head);
        let id = head
            .split("plimsoll-request-id: ")
            .nth(1)
            .and_then(|rest| rest.get(..32))
            .expect("an id");
        let refusal = format!(
            "HTTP/1.1 429 Too Many\r\nPlimsoll-Request-Id: {id}\r\nPlimsoll-Not-Dispatched: request\r\n\
             Connection: close\r\nContent-Length: 0\r\n\r\n"
        );
        drop(stream.write_all(refusal.as_bytes()).await);
        // Dropping a socket with unread bytes in it resets the connection under the client's writes.
    })
    .await;
    let client = server.client();
    for attempt in 0..20 {
        let project = ProjectRequest::new().step("true").file("big", "x".repeat(4 << 20));
        let error = client.run_project(project).any_tier().send().await.unwrap_err();
        assert_eq!(error.http_status(), Some(429), "attempt {attempt}: {error}");
        assert_eq!(error.not_dispatched(), Some(Refusal::Request), "attempt {attempt}");
    }
}

#[tokio::test]
async fn a_name_with_several_addresses_is_tried_until_one_answers() {
    let server = crate::common::daemon(|_| ()).await;
    // `localhost` may be ::1 first, where nothing listens.
    let client = Client::builder(format!("http://localhost:{}", server.address.port()))
        .build()
        .unwrap();
    run(&client).await.unwrap();
    assert_eq!(
        server.received()[0].header("host"),
        Some(format!("localhost:{}", server.address.port()).as_str())
    );
}

#[tokio::test]
async fn fifty_calls_share_one_client() {
    let server = crate::common::daemon(|_| ()).await;
    let client = server.client();
    let calls = (0..50).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { run(&client).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let mut ids: Vec<String> = server
        .received()
        .iter()
        .map(|request| request.id().to_owned())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50);
}
