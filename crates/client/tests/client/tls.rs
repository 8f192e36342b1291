//! `https`: whom the client believes, and that nothing is sent to anybody else.

use std::sync::{Arc, Mutex};

use crate::common::{Received, honest};
use plimsoll_client::rustls::pki_types::PrivateKeyDer;
use plimsoll_client::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use plimsoll_client::{Client, ErrorKind, ProjectRequest, Refusal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The protocols agreed on, one a handshake.
type Agreed = Arc<Mutex<Vec<Option<Vec<u8>>>>>;

/// A daemon behind TLS that answers honestly, or refuses after the head; its address, its certificate, and what
/// protocol was agreed on.
async fn tls_daemon(early: bool) -> (u16, rcgen::Certificate, Agreed) {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .expect("a server");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let agreed: Agreed = Arc::default();
    let log = Arc::clone(&agreed);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Otherwise the answer waits behind the session tickets for an acknowledgement, and a reset discards it.
            stream.set_nodelay(true).expect("a socket");
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            log.lock()
                .expect("no test holds it")
                .push(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
            let mut bytes = Vec::new();
            let head_end = loop {
                if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                    break at + 4;
                }
                assert_ne!(stream.read_buf(&mut bytes).await.expect("a request"), 0);
            };
            let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
            let value = |name: &str| {
                let rest = head.split(&format!("{name}: ")).nth(1).expect("the header");
                rest.split("\r\n").next().expect("its value").to_owned()
            };
            let headers = vec![("plimsoll-request-id".to_owned(), value("plimsoll-request-id"))];
            let mut request = Received {
                line: String::new(),
                headers,
                body: Vec::new(),
            };
            if early {
                let refusal = crate::common::http(
                    429,
                    &[
                        ("Plimsoll-Request-Id", request.id()),
                        ("Plimsoll-Not-Dispatched", "request"),
                    ],
                    "",
                );
                drop(stream.write_all(&refusal).await);
                drop(stream.flush().await);
                continue;
            }
            let length: usize = value("content-length").parse().expect("a length");
            while bytes.len() < head_end + length {
                assert_ne!(stream.read_buf(&mut bytes).await.expect("a body"), 0);
            }
            request.body = bytes.split_off(head_end);
            let answer = crate::common::bound(&request, 200, crate::common::body(honest(&request.run())));
            drop(stream.write_all(&answer).await);
            drop(stream.shutdown().await);
        }
    });
    (port, signed.cert, agreed)
}

fn trusting(certificate: &rcgen::Certificate) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A configuration made for another client; this one speaks HTTP/1.1 all the same.
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

#[tokio::test]
async fn a_caller_s_own_certificate_authority_is_believed() {
    let (port, certificate, agreed) = tls_daemon(false).await;
    let client = Client::builder(format!("https://localhost:{port}"))
        .tls(trusting(&certificate))
        .build()
        .unwrap();
    let result = client.run_javascript("1").any_tier().send().await.unwrap();
    assert_eq!(result.stdout_text(), "42\n");
    assert_eq!(*agreed.lock().unwrap(), [Some(b"http/1.1".to_vec())]);
}

#[tokio::test]
async fn an_unknown_certificate_or_another_name_ran_nothing() {
    let (port, certificate, agreed) = tls_daemon(false).await;
    let unknown = Client::builder(format!("https://localhost:{port}")).build().unwrap();
    let other_name = Client::builder(format!("https://127.0.0.1:{port}"))
        .tls(trusting(&certificate))
        .build()
        .unwrap();
    for client in [unknown, other_name] {
        let error = client.run_javascript("1").any_tier().send().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.not_dispatched()),
            (ErrorKind::Transport, Some(Refusal::Environment)),
            "{error}"
        );
    }
    assert!(agreed.lock().unwrap().is_empty(), "no handshake was completed");
}

#[tokio::test]
async fn a_refusal_before_the_whole_request_was_read_is_heard_under_tls_too() {
    let (port, certificate, _agreed) = tls_daemon(true).await;
    let client = Client::builder(format!("https://localhost:{port}"))
        .tls(trusting(&certificate))
        .build()
        .unwrap();
    for attempt in 0..10 {
        let project = ProjectRequest::new().step("true").file("big", "x".repeat(4 << 20));
        let error = client.run_project(project).any_tier().send().await.unwrap_err();
        assert_eq!(
            error.not_dispatched(),
            Some(Refusal::Request),
            "attempt {attempt}: {error}"
        );
    }
}
