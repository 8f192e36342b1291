//! What the socket of a container does with guests that mean harm.

use std::time::Duration;

use plimsoll_broker::MAX_CONNECTIONS;
use tokio::time::{Instant, sleep, timeout};

use crate::guest::{Container, get, post};
use crate::support::{Run, Script, Step, answer, ok};

#[tokio::test]
async fn a_request_that_reads_in_two_ways_is_refused_and_what_hides_in_it_is_never_served() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /a", "POST /a"]);
    let container = Container::lent(&run.0).await;
    let hidden = get("/a");
    for head in [
        "POST /a HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 0\nX: y\r\n\r\n",
        "POST /a HTTP/1.1\r\nX: y\r\n Content-Length: 50\r\n\r\n",
        "GET /a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        "GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /a HTTP/3\r\n\r\n",
        "GET /a\r\n\r\n",
        "GET /a HTTP/1.1\n\n",
        "\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ] {
        let mut guest = container.connect().await;
        guest.send([head, &hidden].concat()).await;
        let reply = guest.reply().await;
        assert!(reply.status == 400 && reply.closes(), "{head:?} {reply:?}");
        assert!(reply.begins("request refused: it must be plain HTTP/1.1"));
        assert!(guest.ended().await, "{head:?}");
    }
    assert!(run.0.trace().is_none(), "none of it reached the broker");
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_body_that_is_framed_badly_is_refused_and_ends_the_connection() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["GET /a", "POST /a"]);
    let container = Container::lent(&run.0).await;
    let hidden = get("/a");
    for body in [
        "-1\r\n0\r\n\r\n",
        "4;x=y\r\nnull\r\n0\r\n\r\n",
        "4\r\nnullX\r\n0\r\n\r\n",
        "4\nnull\n0\n\n",
        "-1\r\n",
        "fffffffffffffffff\r\n",
    ] {
        let mut guest = container.connect().await;
        let head = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        guest.send([head, body, &hidden].concat()).await;
        let reply = guest.reply().await;
        assert!(
            reply.status == 413 && reply.begins("request body refused: "),
            "{body:?}"
        );
        assert!(guest.ended().await, "{body:?}");
    }
    // A guest that dies in the middle of its body.
    let mut guest = container.connect().await;
    guest.send("POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nnull").await;
    drop(guest);
    for _ in 0..1000 {
        if run.counts() == (0, 7, 0) {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(run.counts(), (0, 7, 0));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_head_may_hold_16_kibibytes_and_100_lines() {
    let container = Container::open().await;
    let of = |size: usize| {
        let head = get("/a").replace("\r\n\r\n", "\r\nA: ");
        let fill = "x".repeat(size - head.len() - 4);
        format!("{head}{fill}\r\n\r\n")
    };
    assert_eq!(container.ask(of(16 << 10)).await.status, 503);
    let endless = format!("GET /{}", "a".repeat(1 << 20));
    let lines = get("/a").replace("\r\n\r\n", &"\r\nA: b".repeat(101)) + "\r\n\r\n";
    for head in [of((16 << 10) + 1), endless, lines] {
        let mut guest = container.connect().await;
        let _ = guest.try_send(&head).await;
        let reply = guest.reply().await;
        assert!(reply.status == 431 && reply.closes());
        assert!(reply.begins("request refused: request line and headers"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_has_5_seconds_from_its_first_byte_and_dripping_does_not_help() {
    let container = Container::open().await;
    let mut guest = container.connect().await;
    sleep(Duration::from_secs(9)).await;
    let started = Instant::now();
    guest.send("GET /a HTTP/1.1\r\nA: ").await;
    while started.elapsed() < Duration::from_millis(4_900) {
        guest.send("x").await;
        sleep(Duration::from_millis(100)).await;
    }
    let reply = guest.reply().await;
    assert!(reply.status == 408 && reply.closes());
    assert!(reply.begins("request refused: request line and headers must arrive within 5 seconds"));
    assert_eq!(started.elapsed().as_secs(), 5);
    assert!(guest.ended().await);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_10_seconds_from_its_first_byte_to_the_end_of_its_body() {
    let upstream = Script::always(ok()).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let container = Container::lent(&run.0).await;
    for head in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let mut guest = container.connect().await;
        let started = Instant::now();
        guest.send(format!("POST /a HTTP/1.1\r\n{head}\r\n\r\n")).await;
        while started.elapsed() < Duration::from_millis(9_900) {
            guest.send(if head.starts_with('C') { "x" } else { "1\r\nx\r\n" }).await;
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(guest.reply().await.status, 413);
        assert_eq!(started.elapsed().as_secs(), 10);
        assert!(guest.ended().await);
    }
    assert_eq!(run.counts(), (0, 2, 0));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_that_never_ends_does_not_hold_a_connection() {
    let container = Container::open().await;
    let mut guest = container.connect().await;
    let started = Instant::now();
    guest.send("POST /a HTTP/1.1\r\nContent-Length: 1000\r\n\r\n").await;
    assert_eq!(guest.reply().await.status, 503);
    assert!(guest.ended().await);
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_after_15_seconds_without_a_word() {
    let container = Container::open().await;
    let mut guest = container.connect().await;
    let started = Instant::now();
    assert!(guest.ended().await);
    assert_eq!(started.elapsed().as_secs(), 15);
    let mut guest = container.connect().await;
    for wait in [14, 14, 0] {
        guest.send(get("/a")).await;
        assert_eq!(guest.reply().await.status, 503);
        sleep(Duration::from_secs(wait)).await;
    }
    let started = Instant::now();
    assert!(guest.ended().await);
    assert_eq!(started.elapsed().as_secs(), 15);
}

#[tokio::test]
async fn the_33rd_connection_waits_until_one_of_32_ends() {
    let container = Container::open().await;
    let mut guests = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut guest = container.connect().await;
        guest.send(get("/a")).await;
        assert_eq!(guest.reply().await.status, 503);
        guests.push(guest);
    }
    let mut next = container.connect().await;
    next.send(get("/a")).await;
    assert!(next.waits().await);
    drop(guests.pop());
    assert_eq!(next.reply().await.status, 503);
    // A flood of them does not stop the socket either.
    let mut flood = Vec::new();
    for _ in 0..100 {
        flood.push(container.connect().await);
    }
    drop((guests, flood));
    assert_eq!(container.ask(get("/a")).await.status, 503);
}

#[tokio::test]
async fn a_call_that_takes_the_whole_60_seconds_is_answered() {
    let upstream = Script::start(|_| vec![Step::Hang]).await;
    let run = Run::new(&upstream.origin(), &["POST /a"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    guest.send(post("/a", "{}")).await;
    while upstream.seen().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    tokio::time::pause();
    let started = Instant::now();
    let reply = guest.reply().await;
    assert!(reply.status == 502 && reply.begins("no answer in time"));
    assert!((59..=60).contains(&started.elapsed().as_secs()));
    // And the connection serves on.
    guest.send(get("/no")).await;
    assert_eq!(guest.reply().await.status, 403);
}

#[tokio::test]
async fn a_guest_that_does_not_read_is_cut_after_65_seconds() {
    let upstream = Script::always(answer(200, "", vec![b'x'; 4 << 20])).await;
    let run = Run::new(&upstream.origin(), &["GET /a"]);
    let container = Container::lent(&run.0).await;
    let mut guest = container.connect().await;
    guest.send(get("/a")).await;
    guest.stream.readable().await.unwrap();
    while run.counts().0 == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    tokio::time::pause();
    sleep(Duration::from_secs(64)).await;
    assert_eq!(guest.head().await.status, 200);
    // A little room was made, and it is not enough.
    sleep(Duration::from_secs(2)).await;
    let mut read = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(&mut guest.stream, &mut read);
    let _ = timeout(Duration::from_secs(1), end).await.expect("cut");
    assert!(read.len() < 4 << 20);
}
