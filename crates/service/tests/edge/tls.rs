//! The same edge under TLS: what is agreed on, and that a handshake which is slow or fails harms nobody.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use plimsoll_core::Reason;
use plimsoll_service::edge::Timeouts;
use plimsoll_service::tls::Tls;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::*;

/// A certificate of the test's own, as the daemon reads it and as a client believes it.
struct Pair {
    tls: Tls,
    certificate: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let mut lookup: BTreeMap<OsString, OsString> = BTreeMap::new();
        for (variable, text) in [
            ("PLIMSOLL_TLS_CERT", signed.cert.pem()),
            ("PLIMSOLL_TLS_KEY", signed.signing_key.serialize_pem()),
        ] {
            let path = folder.path().join(variable);
            fs_err::write(&path, text).unwrap();
            lookup.insert(variable.into(), path.into());
        }
        Self {
            tls: Tls::read(&lookup).unwrap().unwrap(),
            certificate: signed.cert.der().clone(),
        }
    }

    fn setup(&self) -> Setup {
        Setup {
            tls: Some(self.tls.clone()),
            ..Setup::default()
        }
    }

    fn client(&self, versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    /// A finished handshake, without ALPN.
    async fn connect(&self, server: &Server) -> Wire<TlsStream<TcpStream>> {
        Wire::over(handshake(&self.client(rustls::ALL_VERSIONS, &[]), server).await)
    }
}

async fn handshake(client: &TlsConnector, server: &Server) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    client.connect(name, stream).await.unwrap()
}

fn quick() -> Timeouts {
    Timeouts {
        header: Duration::from_millis(300),
        ..Timeouts::RPC
    }
}

#[tokio::test]
async fn http1_is_served_under_tls_1_2_and_1_3_with_and_without_alpn() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for alpn in [&[][..], &["http/1.1"], &["spdy/3", "http/1.1"]] {
            let stream = handshake(&pair.client(&[version], alpn), &server).await;
            let session = stream.get_ref().1;
            assert_eq!(session.protocol_version(), Some(version.version));
            let agreed = alpn.last().map(|name| name.as_bytes());
            assert_eq!(session.alpn_protocol(), agreed);
            let mut wire = Wire::over(stream);
            for _ in 0..2 {
                wire.send(post("Run", &snippet("1"))).await;
                assert_eq!(wire.reply().await.status, 200, "{alpn:?}");
            }
        }
    }
}

#[tokio::test]
async fn http2_is_preferred_where_the_client_offers_it() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    for alpn in [&["http/1.1", "h2"][..], &["h2"], &[]] {
        let stream = handshake(&pair.client(rustls::ALL_VERSIONS, alpn), &server).await;
        let agreed = (!alpn.is_empty()).then_some(&b"h2"[..]);
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
        // Without ALPN by prior knowledge, as in clear.
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let request = Request::post("https://localhost/plimsoll.v1.SandboxService/Run")
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from(snippet("1")), true).unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn what_was_agreed_on_is_what_is_spoken() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let stream = handshake(&pair.client(rustls::ALL_VERSIONS, &["h2"]), &server).await;
    let mut wire = Wire::over(stream);
    wire.send(post("Run", &snippet("1"))).await;
    assert!(wire.try_reply().await.is_none());
    let mut stream = handshake(&pair.client(rustls::ALL_VERSIONS, &["http/1.1"]), &server).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let refused = Wire::over(stream).rest().await;
    assert!(
        refused.is_empty() || refused.starts_with(b"HTTP/1.1 400"),
        "{}",
        String::from_utf8_lossy(&refused)
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_peer_that_names_another_protocol_or_an_old_version_is_refused() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = pair.client(rustls::ALL_VERSIONS, &["spdy/3"]);
    assert!(client.connect(name, stream).await.is_err());
    // A hello of TLS 1.1 with one suite, one signature algorithm and one group; alert 70 is protocol_version.
    let mut hello = b"\x16\x03\x01\x00\x3f\x01\x00\x00\x3b\x03\x02".to_vec();
    hello.extend([7; 32]);
    hello.extend(b"\x00\x00\x02\xc0\x2f\x01\x00\x00\x10");
    hello.extend(b"\x00\x0d\x00\x04\x00\x02\x04\x03\x00\x0a\x00\x04\x00\x02\x00\x17");
    let mut wire = server.connect().await;
    wire.send(hello).await;
    let alert = wire.rest().await;
    assert_eq!((alert[0], &alert[alert.len() - 2..]), (0x15, &[2, 70][..]), "{alert:?}");
}

#[tokio::test]
async fn a_handshake_and_the_header_behind_it_share_the_header_s_time() {
    let pair = Pair::new();
    let server = Setup {
        timeouts: quick(),
        ..pair.setup()
    }
    .start()
    .await;
    for sent in ["", "\x16", "\x16\x03\x01\x01\x00\x01\x00\x00\x7c"] {
        let start = Instant::now();
        let mut wire = server.connect().await;
        wire.send(sent).await;
        wire.closed().await;
        let closed = start.elapsed();
        assert!(
            closed >= Duration::from_millis(290) && closed < Duration::from_secs(5),
            "{sent:?}: {closed:?}"
        );
    }
    // Bytes that trickle in do not extend it.
    let mut wire = server.connect().await;
    let start = Instant::now();
    for byte in [0x16, 3, 1, 1, 0, 1, 0, 0, 0x7c].into_iter().chain([3; 40]) {
        wire.send([byte]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wire.closed().await;
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    // Nor does a handshake that is finished late: the time runs from accept.
    let server = Setup {
        timeouts: Timeouts {
            header: Duration::from_secs(2),
            ..quick()
        },
        ..pair.setup()
    }
    .start()
    .await;
    let start = Instant::now();
    let stream = TcpStream::connect(server.address).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let name = ServerName::try_from("localhost").unwrap();
    let client = pair.client(rustls::ALL_VERSIONS, &[]);
    let mut wire = Wire::over(client.connect(name, stream).await.unwrap());
    wire.send("POST /x HTTP/1.1\r\n").await;
    wire.closed().await;
    assert!(start.elapsed() < Duration::from_millis(2900), "{:?}", start.elapsed());
}

#[tokio::test]
async fn who_only_connects_holds_a_place_for_the_header_s_time_and_then_makes_room() {
    let pair = Pair::new();
    let server = Setup {
        timeouts: quick(),
        max_connections: 1,
        ..pair.setup()
    }
    .start()
    .await;
    let start = Instant::now();
    let silent = server.connect().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut wire = pair.connect(&server).await;
    wire.send(post("Describe", "{}")).await;
    assert_eq!(wire.reply().await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(290), "{:?}", start.elapsed());
    drop(silent);
}

#[tokio::test]
async fn handshakes_that_fail_or_hang_keep_nobody_from_being_served() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let mut open = Vec::new();
    for index in 0..200_u32 {
        let mut wire = server.connect().await;
        match index % 4 {
            0 => wire.send(post("Run", &snippet("1"))).await,
            1 => wire.send([0x16, 3, 1, 0xff, 0xff]).await,
            2 => wire.send([0; 64]).await,
            _ => {}
        }
        open.push(wire);
    }
    let mut wire = pair.connect(&server).await;
    wire.send(post("Run", &snippet("1"))).await;
    assert_eq!(wire.reply().await.status, 200);
    assert_eq!(server.runs(), 1, "what was sent in clear is never run");
    // Nothing of HTTP is said to who does not speak TLS, and the connection ends at once.
    let answered = open.swap_remove(0).rest().await;
    assert!(answered.len() < 16 && answered.first() == Some(&0x15), "{answered:?}");
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_handshake() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let _silent = server.connect().await;
    let mut idle = pair.connect(&server).await;
    idle.send(post("Describe", "{}")).await;
    assert_eq!(idle.reply().await.status, 200);
    let start = Instant::now();
    server.stop.cancel();
    assert_eq!(server.serving.await.unwrap().forced, 0);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_refusal_waits_for_no_body_and_survives_one_that_keeps_coming() {
    let pair = Pair::new();
    let server = Setup {
        tls: Some(pair.tls.clone()),
        ..Setup::with_tokens()
    }
    .start()
    .await;
    let mut wire = pair.connect(&server).await;
    let start = Instant::now();
    wire.send(format!("{}content-length: 100\r\n\r\n{{}}", head("Run", &[JSON])))
        .await;
    let reply = wire.reply().await;
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(
        reply.outcome(),
        (
            401,
            "unauthenticated".into(),
            Some("permission"),
            Some(Reason::Permission)
        )
    );
    // Ours is the first end; the socket goes half a second later.
    wire.closed().await;
    while wire.stream.write_all(b" ").await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(5), "still read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(start.elapsed() >= Duration::from_millis(490), "{:?}", start.elapsed());

    let mut wire = pair.connect(&server).await;
    wire.send(format!("{}content-length: 8000000\r\n\r\n", head("Run", &[JSON])))
        .await;
    wire.send(vec![b' '; 4 * 1024 * 1024]).await;
    assert_eq!(wire.reply().await.status, 401);
}

#[tokio::test]
async fn a_run_past_the_write_time_ends_with_its_connection() {
    let pair = Pair::new();
    let server = Setup {
        timeouts: Timeouts {
            write: Duration::from_millis(600),
            ..Timeouts::RPC
        },
        ..pair.setup()
    }
    .start()
    .await;
    let mut wire = pair.connect(&server).await;
    let start = Instant::now();
    wire.send(post("Run", &snippet("wait"))).await;
    assert!(wire.try_reply().await.is_none());
    assert!(start.elapsed() > Duration::from_millis(500), "{:?}", start.elapsed());
    // An answer of which its caller leaves most: the same clock.
    let mut wire = pair.connect(&server).await;
    wire.send(post("Run", &snippet("long"))).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(wire.rest().await.len() < 16 * 1024 * 1024);
}

#[tokio::test]
async fn a_caller_that_ends_its_side_is_answered_and_one_that_is_gone_cancels_its_run() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let mut wire = pair.connect(&server).await;
    wire.send(post("Run", &snippet("wait"))).await;
    wire.stream.shutdown().await.unwrap();
    server.running(1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    server.fake.release.notify_one();
    let mut reply = wire.reply().await;
    if reply.status == 100 {
        reply = wire.reply().await;
    }
    assert_eq!(reply.status, 200);
    assert_eq!(server.fake.cancelled.load(Ordering::SeqCst), 0);

    for (count, says_so) in [(1, false), (2, true)] {
        let mut wire = pair.connect(&server).await;
        wire.send(post("Run", &snippet("wait"))).await;
        server.running(count + 1).await;
        if says_so {
            wire.stream.shutdown().await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        drop(wire);
        eventually("the run is cancelled", || {
            server.fake.cancelled.load(Ordering::SeqCst) == count
        })
        .await;
    }
}

#[tokio::test]
async fn a_long_answer_comes_whole() {
    let pair = Pair::new();
    let server = pair.setup().start().await;
    let mut wire = pair.connect(&server).await;
    for _ in 0..2 {
        wire.send(post("Run", &snippet("long"))).await;
        // It does not fit what socket and TLS buffer.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let reply = wire.reply().await;
        assert_eq!((reply.status, reply.body.len() > 16 * 1024 * 1024), (200, true));
    }
}
