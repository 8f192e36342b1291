//! What the socket of a container does for guests that speak HTTP as they should.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use plimsoll_broker::{BrokerOptions, BrokerSocket, SOCKET_NAME};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use crate::guest::{Container, get, post};
use crate::support::{Run, Script, Step, answer, ok, spec};

async fn until(what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("waited in vain");
}

fn mode(path: &std::path::Path) -> u32 {
    fs_err::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn only_the_owner_reaches_the_folder_and_anybody_inside_may_speak() {
    let container = Container::open().await;
    let path = container.path();
    let folder = path.parent().unwrap();
    assert_eq!((mode(folder), mode(&path)), (0o700, 0o666));
    assert_eq!(path.file_name().unwrap(), SOCKET_NAME);
    assert!(
        folder
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("plimsoll-run-")
    );
    assert_eq!(folder.parent().unwrap(), container.temp.path());
}

#[tokio::test]
async fn closing_and_dropping_both_remove_the_folder_and_cut_connections() {
    for close in [true, false] {
        let Container { temp, socket } = Container::open().await;
        let mut idle = tokio::net::UnixStream::connect(socket.path()).await.unwrap();
        let path = socket.path().to_owned();
        if close {
            socket.close().await;
        } else {
            drop(socket);
        }
        assert_eq!(fs_err::read_dir(temp.path()).unwrap().count(), 0);
        let mut byte = [0];
        let read = tokio::io::AsyncReadExt::read(&mut idle, &mut byte);
        assert!(matches!(read.await, Ok(0) | Err(_)));
        assert!(tokio::net::UnixStream::connect(path).await.is_err());
    }
}

#[tokio::test]
async fn a_folder_that_cannot_hold_a_socket_is_an_error_that_says_so_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let deep = temp.path().join("x".repeat(100));
    fs_err::create_dir(&deep).unwrap();
    let error = BrokerSocket::open(&deep, "plimsoll-run-").await.unwrap_err();
    assert!(error.to_string().contains("107 bytes"), "{error}");
    assert_eq!(fs_err::read_dir(&deep).unwrap().count(), 0);
    assert!(BrokerSocket::open(&temp.path().join("none"), "p-").await.is_err());
}

#[tokio::test]
async fn requests_are_answered_by_the_broker_that_is_lent_at_that_moment() {
    let upstream = Script::always(ok()).await;
    let (first, second) = (
        Run::new(&upstream.origin(), &["GET /a"]),
        Run::new(&upstream.origin(), &["GET /b"]),
    );
    let container = Container::open().await;
    let mut guest = container.connect().await;
    let mut status = async |target: &str| {
        guest.send(get(target)).await;
        guest.reply().await
    };
    let none = status("/a").await;
    assert_eq!(none.status, 503);
    assert!(none.begins("no grant: ") && none.head.contains("text/plain; charset=utf-8"));
    container.socket.lend(first.0.clone());
    assert_eq!(status("/a").await.status, 200);
    assert_eq!(status("/b").await.status, 403);
    container.socket.lend(second.0.clone());
    assert_eq!(status("/b").await.status, 200);
    container.socket.take_back();
    container.socket.take_back();
    assert_eq!(status("/b").await.status, 503);
    assert_eq!((first.counts(), second.counts()), ((1, 1, 0), (1, 0, 0)));
}

#[tokio::test]
async fn a_target_in_another_spelling_is_refused_and_counted_however_it_is_written() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /v1/items/*"]);
    let container = Container::lent(&run.0).await;
    let refused = [
        "/v1/items/x?a=1",
        "/v1/items/x?",
        "/v1/items/x#f",
        "/v1/items/%78",
        "/v1/items/%2e%2e",
        "/v1/items/../a",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/;x/admin",
        "/v1/items/%2F",
        "/v1/items//x",
        "/v1/items/x/",
        "/v1/items/a\\b",
        "/v1/items/has space",
        "/v1/items/café",
        "/v1/items/[x]",
        "/v1/items/*",
        "/v1/items/a:b",
        "/v1/items/..;",
        "/v1/items/a;b",
        "/v1/items/...",
        "http://h/v1/items/x",
        "https://api.example/v1/items/x",
        "//v1/items/x",
        "//",
        "v1/items/x",
        "/V1/items/x",
        "/v1/items/a'b",
        "",
        "*",
        "/v1/items/a\rb",
        "/v1/items/a\0b",
    ];
    let mut guest = container.connect().await;
    for target in refused {
        guest.send(get(target)).await;
        let reply = guest.reply().await;
        assert_eq!(reply.status, 403, "{target:?}");
        assert!(reply.begins("route not permitted: "));
    }
    for line in [
        &b"GET /v1/items/\xff\xfe"[..],
        b"POST /v1/items/x",
        b"TRACE /v1/items/x",
        b"CONNECT h:443",
    ] {
        let reply = container.ask([line, b" HTTP/1.1\r\n\r\n"].concat()).await;
        assert_eq!(reply.status, 403, "{}", line.escape_ascii());
        assert_eq!(reply.closes(), line.starts_with(b"CONNECT"));
    }
    assert_eq!(run.counts(), (0, u64::try_from(refused.len()).unwrap() + 4, 0));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn what_is_sent_is_the_target_and_the_body_and_nothing_else_of_a_guest() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /v1/items/*", "POST /a"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    for (request, line, body) in [
        (get("/v1/items/a@b"), "GET /v1/items/a@b HTTP/1.1", ""),
        (
            get("/v1/items/a=b,c").replace("GET", "get"),
            "GET /v1/items/a=b,c HTTP/1.1",
            "",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: evil\r\nAuthorization: Bearer mine\r\nCookie: a=b\r\nX-Own: 1\r\n\
             Content-Type: text/x-own\r\nAccept: */*\r\nContent-Length: 4\r\n\r\nnull"
                .to_owned(),
            "POST /a HTTP/1.1",
            "null",
        ),
        (
            "POST /a HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nnu\r\n2\r\nll\r\n0\r\nX-Own: 1\r\n\r\n"
                .to_owned(),
            "POST /a HTTP/1.1",
            "null",
        ),
    ] {
        guest.send(request).await;
        assert_eq!(guest.reply().await.status, 200);
        let seen = upstream.seen().pop().unwrap();
        assert_eq!((seen.line(), &*seen.body), (line, body.as_bytes()));
        assert_eq!(seen.header("host"), Some(upstream.address.to_string().as_str()));
        for own in ["mine", "evil", "Cookie", "X-Own", "x-own", "*/*", "chunked"] {
            assert!(!seen.head.contains(own), "{}", seen.head);
        }
    }
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_turn() {
    let upstream = Script::start(|seen| vec![Step::Send(answer(200, "", seen.line().as_bytes()))]).await;
    let run = Run::new(&upstream.origin(), &["GET /a/*", "POST /a/*"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    guest
        .send([get("/a/1"), post("/a/2", "{}"), get("/no"), get("/a/3")].concat())
        .await;
    for expected in [
        "GET /a/1 HTTP/1.1",
        "POST /a/2 HTTP/1.1",
        "route not permitted",
        "GET /a/3 HTTP/1.1",
    ] {
        assert!(guest.reply().await.begins(expected));
    }
    guest.send("GET /a/4 HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    let last = guest.reply().await;
    assert!(last.status == 200 && last.closes());
    assert!(guest.ended().await);
    let old = container.ask("GET /a/5 HTTP/1.0\r\n\r\n").await;
    assert!(old.status == 200 && old.closes());
}

#[tokio::test]
async fn of_an_answer_only_status_content_type_and_body_arrive() {
    let upstream = Script::start(|seen| {
        vec![Step::Send(match seen.line().split(' ').nth(1).unwrap() {
            "/moved" => answer(
                302,
                "Location: /a\r\nSet-Cookie: a=b\r\nContent-Type: text/x\r\n",
                "gone",
            ),
            "/none" => b"HTTP/1.1 204 X\r\nX-Own: 1\r\n\r\n".to_vec(),
            "/same" => b"HTTP/1.1 304 X\r\n\r\n".to_vec(),
            "/odd" => answer(299, "Content-Type: a\tb\r\n", "odd"),
            _ => answer(200, "Content-Type: application/json\r\n", vec![b'x'; 4 << 20]),
        })]
    })
    .await;
    let run = Run::new(&upstream.origin(), &["GET /*"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    for (target, head, size) in [
        (
            "/moved",
            "HTTP/1.1 302 Found\r\nContent-Type: text/x\r\nContent-Length: 4",
            4,
        ),
        (
            "/none",
            "HTTP/1.1 204 No Content\r\nContent-Type: application/octet-stream",
            0,
        ),
        (
            "/same",
            "HTTP/1.1 304 Not Modified\r\nContent-Type: application/octet-stream",
            0,
        ),
        (
            "/odd",
            "HTTP/1.1 299 \r\nContent-Type: application/octet-stream\r\nContent-Length: 3",
            3,
        ),
        (
            "/big",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4194304",
            4 << 20,
        ),
    ] {
        guest.send(get(target)).await;
        let reply = guest.reply().await;
        assert_eq!((&*reply.head, reply.body.len()), (head, size), "{target}");
    }
    guest.send("HEAD /moved HTTP/1.1\r\n\r\n").await;
    let head = guest.head().await;
    assert!(head.status == 403 && head.closes());
    assert!(guest.ended().await, "no body follows");
}

#[tokio::test]
async fn a_body_of_one_mebibyte_is_sent_and_more_is_refused_before_and_after_it_came() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    let body = "x".repeat(1 << 20);
    guest.send(post("/a", &body)).await;
    assert_eq!(guest.reply().await.status, 200);
    assert_eq!(upstream.seen()[0].body.len(), 1 << 20);
    // The connection survives refused bodies, stated and chunked, and reads past them.
    guest.send(post("/a", &(body.clone() + "x"))).await;
    assert_eq!(guest.reply().await.status, 413);
    let chunked = format!("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n{body}x\r\n0\r\n\r\n");
    guest.send(chunked).await;
    assert!(guest.reply().await.begins("request body refused: "));
    guest.send(post("/no", &body)).await;
    assert_eq!(guest.reply().await.status, 403);
    guest.send(post("/a", "")).await;
    assert_eq!(guest.reply().await.status, 200);
    let empty = upstream.seen().pop().unwrap();
    assert_eq!(
        (empty.header("content-type"), empty.header("content-length")),
        (None, Some("0"))
    );
    // What it would take too long to read past ends the connection.
    let reply = container
        .ask("POST /a HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\nx")
        .await;
    assert!(reply.status == 413 && reply.closes());
    assert_eq!(run.counts(), (2, 4, 0));
}

#[tokio::test]
async fn a_guest_that_waits_for_a_go_ahead_gets_it_only_when_the_call_may_be_made() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let container = Container::lent(&run.0).await;
    let head = |path| format!("POST {path} HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    let mut guest = container.connect().await;
    guest.send(head("/a")).await;
    assert_eq!(guest.head().await.status, 100);
    guest.send("{}").await;
    assert_eq!(guest.reply().await.status, 200);
    // Refused: whether the body follows all the same is anybody's guess, so nothing more is read as a request.
    guest.send(head("/no")).await;
    let refused = guest.reply().await;
    assert!(refused.status == 403 && refused.closes());
    assert!(guest.ended().await);
}

#[tokio::test]
async fn the_17th_call_at_once_is_refused_over_17_connections() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let container = Container::lent(&run.0).await;
    let mut guests = Vec::new();
    for _ in 0..16 {
        let mut guest = container.connect().await;
        guest.send(get("/a")).await;
        guests.push(guest);
    }
    until(|| upstream.seen().len() == 16).await;
    let reply = container.ask(get("/a")).await;
    assert!(reply.status == 429 && reply.begins("too many calls at once"));
}

#[tokio::test]
async fn a_guest_that_goes_away_takes_its_call_with_it_and_one_that_only_stops_sending_does_not() {
    let upstream = Script::start(|seen| match seen.line().contains("hang") {
        true => vec![Step::Hang],
        false => vec![Step::Sleep(Duration::from_millis(150)), Step::Send(ok())],
    })
    .await;
    let run = Run::new(&upstream.origin(), &["POST /hang", "POST /slow"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    guest.send(post("/hang", "{}")).await;
    until(|| upstream.seen().len() == 1).await;
    drop(guest);
    until(|| upstream.log.hangups.load(Ordering::SeqCst) == 1).await;
    until(|| run.counts() == (1, 0, 0)).await;
    let row = &run.trace().rows[0];
    assert_eq!((row.status, row.delivered), (0, false));

    let mut guest = container.connect().await;
    guest.send(post("/slow", "{}")).await;
    guest.stream.shutdown().await.unwrap();
    assert_eq!(guest.reply().await.status, 200);
    assert!(guest.ended().await);
    // Nor does one that has sent its next request ahead.
    let mut guest = container.connect().await;
    guest.send([post("/slow", "{}"), post("/slow", "{}")].concat()).await;
    assert_eq!((guest.reply().await.status, guest.reply().await.status), (200, 200));
}

#[tokio::test]
async fn the_end_of_the_run_cuts_calls_and_refuses_bodies_that_end_after_it() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let container = Container::lent(&run.0).await;
    let (mut sent, mut sending) = (container.connect().await, container.connect().await);
    sent.send(post("/a", "{}")).await;
    sending.send(&post("/a", "{}")[..post("/a", "{}").len() - 1]).await;
    until(|| upstream.seen().len() == 1).await;
    let started = Instant::now();
    assert_eq!(run.0.end().await.unwrap().rows.len(), 1);
    assert!(started.elapsed() < Duration::from_millis(500));
    assert!(sent.reply().await.begins("no answer: the run ended"));
    let late = sending.reply().await;
    assert!(late.status == 503 && late.begins("grant ended"));
    sending.send("}").await;
    sending.send(post("/a", "{}")).await;
    assert_eq!(sending.reply().await.status, 503);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn closing_cuts_the_calls_of_its_connections() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    guest.send(get("/a")).await;
    until(|| upstream.seen().len() == 1).await;
    container.socket.close().await;
    assert_eq!(run.counts(), (1, 0, 0), "the row is written when close returns");
    assert!(guest.ended().await);
    until(|| upstream.log.hangups.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn caps_and_budget_hold_across_connections() {
    let upstream = Script::always(ok()).await;
    let mut grant = spec(&upstream.origin(), &["GET /a"]);
    grant.max_calls = 20;
    grant.route_max_calls.push(("GET /a".to_owned(), 5));
    let run = Run::with(&grant, BrokerOptions::default());
    let container = Container::lent(&run.0).await;
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let mut guest = container.connect().await;
        calls.spawn(async move {
            guest.send(get("/a")).await;
            guest.reply().await.status
        });
    }
    let mut answers = calls.join_all().await;
    answers.sort_unstable();
    assert_eq!(answers, [vec![200; 5], vec![429; 7]].concat());
    for _ in 0..8 {
        assert!(container.ask(get("/no")).await.begins("route not permitted"));
    }
    assert!(container.ask(get("/no")).await.begins("call budget used up"));
    assert_eq!(upstream.seen().len(), 5);
    // The socket and the function count the same calls.
    assert_eq!(run.0.call(b"GET", b"/a", Empty::<Bytes>::new()).await.status, 429);
}
