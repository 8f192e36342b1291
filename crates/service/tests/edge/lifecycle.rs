//! Connections: their clocks, their number, and how a listener ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_service::edge::{Drain, Listener, MetricsSite, Timeouts, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::*;

fn quick() -> Timeouts {
    Timeouts {
        header: Duration::from_millis(300),
        idle: Duration::from_millis(900),
        ..Timeouts::RPC
    }
}

#[tokio::test]
async fn headers_that_do_not_come_in_time_end_the_connection() {
    let server = Setup::with_timeouts(quick()).start().await;
    for sent in [
        "",
        "POST /x HTTP/1.1\r\nhost: a\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut wire = server.connect().await;
        wire.send(sent).await;
        let closed = wire.closed().await;
        assert!(
            closed > Duration::from_millis(200) && closed < Duration::from_millis(800),
            "{sent:?}: {closed:?}"
        );
    }
    // Trickling does not extend it.
    let mut wire = server.connect().await;
    let start = Instant::now();
    for byte in "POST /x HTTP/1.1\r\nhost: aaaaaaaaaaaaaaaaaaaaaaa".chars() {
        wire.send(byte.to_string()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wire.closed().await;
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    assert_eq!(Timeouts::RPC.header, Duration::from_secs(5));
}

#[tokio::test]
async fn an_idle_connection_lives_for_its_own_time_and_its_next_header_for_the_headers() {
    let server = Setup::with_timeouts(quick()).start().await;
    let mut wire = server.connect().await;
    wire.send(post("Describe", "{}")).await;
    wire.reply().await;
    let idle = wire.closed().await;
    assert!(
        idle > Duration::from_millis(700) && idle < Duration::from_millis(1500),
        "{idle:?}"
    );

    let mut wire = server.connect().await;
    wire.send(post("Describe", "{}")).await;
    wire.reply().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    wire.send("POST /x HTTP/1.1\r\n").await;
    let header = wire.closed().await;
    assert!(
        header > Duration::from_millis(200) && header < Duration::from_millis(700),
        "{header:?}"
    );
    assert_eq!(Timeouts::RPC.idle, Duration::from_secs(120));
}

#[tokio::test]
async fn a_run_longer_than_the_idle_time_is_answered_and_one_longer_than_the_write_time_is_not() {
    let server = Setup::with_timeouts(Timeouts {
        write: Duration::from_secs(2),
        ..quick()
    })
    .start()
    .await;
    let mut wire = server.connect().await;
    wire.send(post("Run", &snippet("wait"))).await;
    tokio::time::sleep(Duration::from_millis(1400)).await;
    server.fake.release.notify_one();
    assert_eq!(wire.reply().await.status, 200);
    let mut wire = server.connect().await;
    let start = Instant::now();
    wire.send(post("Run", &snippet("wait"))).await;
    assert!(wire.try_reply().await.is_none());
    assert!(start.elapsed() > Duration::from_millis(1800), "{:?}", start.elapsed());
    eventually("the run is cancelled", || {
        server.fake.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(Timeouts::RPC.write, Duration::from_secs(360));
}

#[tokio::test]
async fn a_caller_that_ends_its_side_after_the_whole_request_gets_its_answer() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::open().await;
    // One that is answered at once, and one that waits long enough to be asked whether it is still there.
    for wait in [Duration::ZERO, Duration::from_millis(400)] {
        let before = server.runs();
        let mut wire = server.connect().await;
        let code = if wait.is_zero() { "1" } else { "wait" };
        wire.send(post("Run", &snippet(code))).await;
        wire.stream.shutdown().await.unwrap();
        server.running(before + 1).await;
        tokio::time::sleep(wait).await;
        server.fake.release.notify_one();
        let mut reply = wire.reply().await;
        if reply.status == 100 {
            assert!(!wait.is_zero() && reply.headers.is_empty(), "{reply:?}");
            reply = wire.reply().await;
        }
        assert_eq!(reply.status, 200, "{wait:?}");
        wire.closed().await;
    }
    assert_eq!(server.fake.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_long_answer_reaches_a_caller_that_ended_its_side() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(post("Run", &snippet("long"))).await;
    wire.stream.shutdown().await.unwrap();
    server.running(1).await;
    // The answer does not fit the socket's buffers, so most of it is written after the caller's end was seen.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut reply = wire.reply().await;
    if reply.status == 100 {
        reply = wire.reply().await;
    }
    assert_eq!((reply.status, reply.body.len() > 16 * 1024 * 1024), (200, true));
}

#[tokio::test]
async fn a_caller_that_is_gone_cancels_its_run_however_it_went() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::open().await;
    for (count, ends_its_side_first) in [(1, false), (2, true)] {
        let mut wire = server.connect().await;
        wire.send(post("Run", &snippet("wait"))).await;
        server.running(count).await;
        if ends_its_side_first {
            wire.stream.shutdown().await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        drop(wire);
        let left = Instant::now();
        eventually("the run is cancelled", || {
            server.fake.cancelled.load(Ordering::SeqCst) == count
        })
        .await;
        assert!(left.elapsed() < Duration::from_secs(1), "{:?}", left.elapsed());
    }
}

#[tokio::test]
async fn a_request_cut_off_by_its_caller_is_not_waited_for() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::open().await;
    let mut wire = server.connect().await;
    wire.send(format!("{}content-length: 100\r\n\r\n{{}}", head("Run", &[JSON])))
        .await;
    wire.stream.shutdown().await.unwrap();
    assert!(wire.closed().await < Duration::from_secs(1));
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn at_the_cap_a_new_connection_waits_for_a_place() {
    let server = Setup {
        max_connections: 1,
        ..Setup::default()
    }
    .start()
    .await;
    let mut first = server.connect().await;
    first.send(post("Describe", "{}")).await;
    assert_eq!(first.reply().await.status, 200);
    let mut second = server.connect().await;
    second.send(post("Describe", "{}")).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(300), second.try_reply())
            .await
            .is_err()
    );
    drop(first);
    assert_eq!(second.reply().await.status, 200);
}

#[tokio::test]
async fn a_drain_answers_what_is_open_and_takes_nothing_new() {
    let server = Server::open().await;
    let (mut idle, mut busy) = (server.connect().await, server.connect().await);
    idle.send(post("Describe", "{}")).await;
    idle.reply().await;
    busy.send(post("Run", &snippet("wait"))).await;
    server.running(1).await;
    server.stop.cancel();
    assert!(idle.closed().await < Duration::from_millis(500));
    eventually("new connections are refused", || {
        std::net::TcpStream::connect(server.address).is_err()
    })
    .await;
    server.fake.release.notify_one();
    assert_eq!(busy.reply().await.status, 200);
    busy.closed().await;
    let drained = server.serving.await.unwrap();
    assert_eq!(drained.forced, 0);
    assert!(drained.failure.is_none());
}

#[tokio::test]
async fn a_drain_cuts_off_what_outlives_its_budget() {
    let server = Setup {
        budget: Duration::from_millis(300),
        ..Setup::default()
    }
    .start()
    .await;
    let mut busy = server.connect().await;
    busy.send(post("Run", &snippet("wait"))).await;
    server.running(1).await;
    server.stop.cancel();
    assert!(busy.try_reply().await.is_none());
    assert_eq!(server.serving.await.unwrap().forced, 1);
    eventually("the run is cancelled", || {
        server.fake.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn the_metrics_listener_serves_one_page() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let drain = Drain {
        stop: stop.clone(),
        budget: Duration::from_secs(1),
    };
    let site = MetricsSite::new(|| "plimsoll_up 1\n".to_owned());
    let serving = tokio::spawn(serve(Listener::new(listener, None), site, Timeouts::METRICS, 64, drain));
    let ask = |request: String| async move {
        let mut wire = Server {
            address,
            ..Server::open().await
        }
        .connect()
        .await;
        wire.send(request).await;
        wire.reply().await
    };
    let reply = ask("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"plimsoll_up 1\n"[..]));
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4"));
    assert_eq!(
        ask("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()).await.status,
        404
    );
    let reply = ask("POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n".to_owned()).await;
    assert_eq!(
        (reply.status, reply.header("allow"), reply.header("connection")),
        (405, Some("GET, HEAD"), Some("close"))
    );
    for host in ["", "host: a\r\nhost: a\r\n"] {
        let reply = ask(format!("GET /metrics HTTP/1.1\r\n{host}\r\n")).await;
        assert_eq!(
            (reply.status, reply.header("connection")),
            (400, Some("close")),
            "{host:?}"
        );
    }
    assert_eq!(ask("GET /metrics HTTP/1.0\r\n\r\n".to_owned()).await.status, 200);
    assert_eq!(Timeouts::METRICS.request, Duration::from_secs(10));
    stop.cancel();
    assert!(serving.await.unwrap().failure.is_none());
}
