//! TLS is verified, and HTTP/2 keeps every rule.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use plimsoll_broker::BrokerOptions;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::support::{Names, Run, Script, Step, TOKEN, answer, spec};

/// A server for `name`, and options that trust it and find it on the loopback interface.
pub(crate) fn tls(name: &str, protocols: &[&str]) -> (TlsAcceptor, BrokerOptions) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let options = BrokerOptions {
        tls: Some(Arc::new(client)),
        resolver: Names::new(&[&["127.0.0.1"]]),
        ..BrokerOptions::default()
    };
    (TlsAcceptor::from(Arc::new(server)), options)
}

fn loopback(port: u16, host: &str) -> plimsoll_grants::grant::GrantSpec {
    let mut spec = spec(&format!("https://{host}:{port}"), &["GET /v1/*", "POST /v1/*"]);
    spec.allow_private = vec!["127.0.0.0/8".to_owned()];
    spec
}

#[tokio::test]
async fn a_trusted_certificate_of_the_right_name_is_called_over_http_1() {
    for (host, protocols) in [("api.example", &["http/1.1"][..]), ("api.example.", &[])] {
        let (acceptor, options) = tls("api.example", protocols);
        let upstream = Script::over(Some(acceptor), |_| vec![Step::Send(answer(200, "", "over TLS"))]).await;
        let run = Run::with(&loopback(upstream.address.port(), host), options);
        for _ in 0..3 {
            assert_eq!(run.get("/v1/a").await.body, "over TLS");
        }
        assert_eq!(upstream.lines(), ["GET /v1/a HTTP/1.1"; 3]);
        let port = upstream.address.port();
        assert_eq!(upstream.seen()[0].header("host"), Some(&*format!("{host}:{port}")));
        assert_eq!(upstream.connections(), 1);
        run.0.end().await;
        upstream.all_closed().await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_names_another_host_gets_nothing() {
    let (acceptor, trusting) = tls("other.example", &[]);
    let upstream = Script::over(Some(acceptor), |_| vec![Step::Send(answer(200, "", ""))]).await;
    let system = BrokerOptions {
        tls: None,
        ..trusting.clone()
    };
    for (options, host) in [(trusting, "api.example"), (system, "other.example")] {
        let run = Run::with(&loopback(upstream.address.port(), host), options);
        let answer = run.get("/v1/a").await;
        assert_eq!(answer.status, 502, "{host}");
        assert_eq!(run.trace().rows[0].status, 0);
    }
    assert_eq!(upstream.connections(), 2);
    assert!(upstream.seen().is_empty(), "no request and so no credential was sent");
}

#[tokio::test]
async fn an_answer_cut_off_without_the_end_of_tls_is_502() {
    let (acceptor, options) = tls("api.example", &[]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut buffer = [0; 2000];
        let _ = stream.read(&mut buffer).await.unwrap();
        // Its length is "until the end"; an attacker could have cut it here.
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it?").await.unwrap();
        stream.flush().await.unwrap();
        stream.get_mut().0.shutdown().await.unwrap();
    });
    let run = Run::with(&loopback(port, "api.example"), options);
    assert_eq!(run.status("/v1/a").await, 502);
    assert_eq!(run.trace().rows[0].status, 200);
    server.await.unwrap();
}

/// What an HTTP/2 server saw: version, method, whole URI, host header, authorization, body length.
type H2Seen = Arc<Mutex<Vec<(Version, String, String, bool, String)>>>;

async fn h2_server(acceptor: TlsAcceptor, seen: H2Seen, open: Arc<AtomicUsize>, total: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            total.fetch_add(1, Ordering::SeqCst);
            let (acceptor, seen, open) = (acceptor.clone(), Arc::clone(&seen), Arc::clone(&open));
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                open.fetch_add(1, Ordering::SeqCst);
                let goodbye = Arc::new(Notify::new());
                let asked = Arc::clone(&goodbye);
                let service = service_fn(move |request: Request<Incoming>| {
                    let (seen, asked) = (Arc::clone(&seen), Arc::clone(&asked));
                    async move {
                        let header = |name| {
                            request
                                .headers()
                                .get(name)
                                .map(|value| value.to_str().unwrap().to_owned())
                        };
                        seen.lock().push((
                            request.version(),
                            request.method().to_string(),
                            request.uri().to_string(),
                            header("host").is_some(),
                            header("authorization").unwrap_or_default(),
                        ));
                        let path = request.uri().path().to_owned();
                        let body = http_body_util::BodyExt::collect(request.into_body())
                            .await
                            .unwrap()
                            .to_bytes();
                        let answer = match &*path {
                            "/v1/large" => Bytes::from(vec![0; (4 << 20) + 1]),
                            "/v1/slow" => {
                                tokio::time::sleep(Duration::from_secs(60)).await;
                                Bytes::new()
                            }
                            "/v1/goodbye" => {
                                asked.notify_one();
                                Bytes::new()
                            }
                            "/v1/echo" => Bytes::from(TOKEN),
                            _ => body,
                        };
                        Ok::<_, Infallible>(Response::new(Full::new(answer)))
                    }
                });
                let mut connection = pin!(
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                );
                loop {
                    tokio::select! {
                        _ = connection.as_mut() => break,
                        () = goodbye.notified() => connection.as_mut().graceful_shutdown(),
                    }
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    port
}

#[tokio::test]
async fn http_2_is_spoken_when_the_api_speaks_it_and_changes_no_rule() {
    let (acceptor, options) = tls("api.example", &["h2"]);
    let (seen, open, total) = (
        H2Seen::default(),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let port = h2_server(acceptor, Arc::clone(&seen), Arc::clone(&open), Arc::clone(&total)).await;
    let run = Run::with(&loopback(port, "api.example"), options);
    let body = vec![b'7'; 1 << 20];
    assert_eq!(run.call("POST", "/v1/a@b=c,d", body.clone()).await.body, body);
    assert_eq!(run.call("GET", "/v1/x", "").await.status, 200);
    assert_eq!(total.load(Ordering::SeqCst), 1, "the connection is kept between calls");
    assert_eq!(run.status("/v1/large").await, 502);
    assert_eq!(run.status("/v1/echo").await, 502);
    let bearer = format!("Bearer {TOKEN}");
    let uri = |path| format!("https://api.example:{port}{path}");
    let row = |method: &str, path| (Version::HTTP_2, method.to_owned(), uri(path), false, bearer.clone());
    assert_eq!(
        *seen.lock(),
        [
            row("POST", "/v1/a@b=c,d"),
            row("GET", "/v1/x"),
            row("GET", "/v1/large"),
            row("GET", "/v1/echo")
        ]
    );
    let rows: Vec<_> = run.trace().rows.iter().map(|row| (row.status, row.delivered)).collect();
    assert_eq!(rows, [(200, true), (200, true), (200, false), (200, false)]);

    let slow = tokio::spawn({
        let run = run.clone();
        async move { run.status("/v1/slow").await }
    });
    while seen.lock().len() < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let trace = run.0.end().await.unwrap();
    assert_eq!(trace.rows.len(), 5);
    assert_eq!(slow.await.unwrap(), 502);
    for _ in 0..1000 {
        if open.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{} connections stay open", open.load(Ordering::SeqCst));
}

#[tokio::test]
async fn an_http_2_server_that_says_goodbye_is_called_on_a_new_connection() {
    let (acceptor, options) = tls("api.example", &["h2"]);
    let (seen, open, total) = (
        H2Seen::default(),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let port = h2_server(acceptor, Arc::clone(&seen), open, Arc::clone(&total)).await;
    let run = Run::with(&loopback(port, "api.example"), options);
    for nth in 1..=5 {
        assert_eq!(run.status("/v1/goodbye").await, 200);
        assert_eq!(total.load(Ordering::SeqCst), nth);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen.lock().len(), 5, "no call was made twice");
}
