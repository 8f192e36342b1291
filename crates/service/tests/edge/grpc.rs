//! gRPC and gRPC-Web on the same paths.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use plimsoll_core::RunRequest;
use plimsoll_wire::{from_binary, pb, to_binary};
use tokio::net::TcpStream;

use crate::support::*;

struct Called {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    trailers: HeaderMap,
}

impl Called {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The gRPC status, wherever this protocol puts it, and the decoded details.
    fn grpc_status(&self) -> (Option<String>, Vec<u8>) {
        let mut fields = self.trailers.clone();
        if fields.is_empty() {
            // gRPC-Web: a frame with flag 0x80 holds the trailers as text.
            let at = self
                .body
                .windows(5)
                .position(|frame| frame[0] == 0x80)
                .expect("a trailers frame");
            for line in String::from_utf8_lossy(&self.body[at + 5..]).lines() {
                if let Some((name, value)) = line.split_once(':') {
                    let name = http::HeaderName::from_bytes(name.trim().as_bytes()).unwrap();
                    fields.insert(name, value.trim().parse().unwrap());
                }
            }
        }
        let text = |name: &str| fields.get(name).map(|value| value.to_str().unwrap().to_owned());
        let details = text("grpc-status-details-bin").unwrap_or_default();
        let decoded = STANDARD_NO_PAD
            .decode(&details)
            .or_else(|_| STANDARD.decode(&details))
            .unwrap();
        (text("grpc-status"), decoded)
    }
}

async fn call(server: &Server, procedure: &str, kind: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Called {
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://a/plimsoll.v1.SandboxService/{procedure}"))
        .header("content-type", kind)
        .header("te", "trailers")
        .header("plimsoll-request-id", ID);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client
        .send_request(request.body(Full::new(Bytes::from(body))).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Called {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: collected.to_bytes(),
        trailers,
    }
}

fn envelope(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    framed
}

fn run(floor: &str) -> Vec<u8> {
    let mut request = RunRequest::javascript("1");
    request.minimum_isolation = floor.into();
    to_binary(&pb::RunRequest::from(request))
}

const KINDS: [&str; 4] = [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc-web",
    "application/grpc-web+proto",
];

#[tokio::test]
async fn grpc_and_grpc_web_run_and_echo_the_id() {
    let server = Server::open().await;
    for kind in KINDS {
        let called = call(&server, "Run", kind, &[], envelope(&run(""))).await;
        assert_eq!(
            (called.status, called.header("plimsoll-request-id")),
            (200, Some(ID)),
            "{kind}"
        );
        assert_eq!(called.header("plimsoll-not-dispatched"), None);
        assert_eq!(called.grpc_status().0.as_deref(), Some("0"), "{kind}");
        let length = usize::try_from(u32::from_be_bytes(called.body[1..5].try_into().unwrap())).unwrap();
        let answer: pb::RunResponse = from_binary(&called.body[5..5 + length]).unwrap();
        assert_eq!(answer.sandbox, "fake", "{kind}");
    }
    assert_eq!(server.runs(), KINDS.len());
}

#[tokio::test]
async fn the_json_codec_of_grpc_passes_the_same_scanner() {
    let server = Server::open().await;
    for kind in ["application/grpc+json", "application/grpc-web+json"] {
        let called = call(&server, "Run", kind, &[], envelope(snippet("1").as_bytes())).await;
        assert_eq!(called.grpc_status().0.as_deref(), Some("0"), "{kind}");
        assert!(String::from_utf8_lossy(&called.body).contains("NDIK"));
        let twice = br#"{"protocol":4,"javascript":{"code":"1"},"javascript":{"code":"2"}}"#;
        let called = call(&server, "Run", kind, &[], envelope(twice)).await;
        assert_eq!(
            (called.status, called.header("plimsoll-not-dispatched")),
            (200, Some("request")),
            "{kind}"
        );
        assert_eq!(called.grpc_status().0.as_deref(), Some("3"), "{kind}");
    }
    assert_eq!(server.runs(), 2);
}

#[tokio::test]
async fn a_refusal_of_the_edge_is_an_http_status_with_a_json_body() {
    let server = Setup::with_tokens().start().await;
    for kind in KINDS {
        let called = call(&server, "Run", kind, &[], envelope(&run(""))).await;
        assert_eq!(
            (called.status, called.header("content-type")),
            (401, Some("application/json")),
            "{kind}"
        );
        assert_eq!(called.header("plimsoll-not-dispatched"), Some("permission"));
        let error: serde_json::Value = serde_json::from_slice(&called.body).unwrap();
        assert_eq!(
            (&error["code"], &error["details"][0]["value"]),
            (&"unauthenticated".into(), &"CAI".into())
        );
    }
    let called = call(&server, "Run", "application/grpc+thrift", &[ALICE], Vec::new()).await;
    assert_eq!(called.status, 415);
}

#[tokio::test]
async fn a_refusal_of_the_handler_travels_under_200_with_its_details_in_the_trailers() {
    let server = Server::open().await;
    for kind in KINDS {
        let called = call(&server, "Run", kind, &[], envelope(&run("vm"))).await;
        assert_eq!(
            (called.status, called.header("plimsoll-not-dispatched")),
            (200, None),
            "{kind}"
        );
        let (status, details) = called.grpc_status();
        assert_eq!(status.as_deref(), Some("9"), "{kind}");
        let details = String::from_utf8_lossy(&details).into_owned();
        assert!(
            details.contains("plimsoll.v1.NotDispatched") && details.ends_with("\u{8}\u{5}"),
            "{details:?}"
        );
    }
}

#[tokio::test]
async fn an_undecodable_message_is_marked_in_the_header_under_200() {
    let server = Server::open().await;
    for kind in KINDS {
        let broken = [
            (envelope(b"\xff"), "3"),
            (b"\x00\x00\x00\x00\x09a".to_vec(), "3"),
            (Vec::new(), "12"),
            ([envelope(&run("")), envelope(&run(""))].concat(), "12"),
        ];
        for (body, expected) in broken {
            let called = call(&server, "Run", kind, &[], body).await;
            assert_eq!(
                (called.status, called.header("plimsoll-not-dispatched")),
                (200, Some("request")),
                "{kind}"
            );
            assert_eq!(called.header("plimsoll-request-id"), Some(ID));
            assert_eq!(called.grpc_status().0.as_deref(), Some(expected), "{kind}");
        }
    }
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_frame_with_a_reserved_flag_is_malformed() {
    let server = Server::open().await;
    for kind in KINDS {
        // 0x02 and 0x04 mean nothing, 0x80 is the trailers of a gRPC-Web answer; with 0x01 the message is compressed too.
        for flags in [0x02_u8, 0x03, 0x04, 0x40, 0x80] {
            let mut framed = envelope(&run(""));
            framed[0] = flags;
            let called = call(&server, "Run", kind, &[], framed).await;
            assert_eq!(
                (called.status, called.header("plimsoll-not-dispatched")),
                (200, Some("request")),
                "{kind} {flags:#x}"
            );
            assert!(
                matches!(called.grpc_status().0.as_deref(), Some("3" | "12" | "13")),
                "{kind} {flags:#x}"
            );
        }
    }
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_deadline_of_grpc_is_the_handlers_to_keep() {
    let server = Server::open().await;
    let called = call(
        &server,
        "Run",
        "application/grpc",
        &[("grpc-timeout", "0m")],
        envelope(&run("")),
    )
    .await;
    let (status, details) = called.grpc_status();
    assert_eq!(status.as_deref(), Some("4"));
    assert!(
        String::from_utf8_lossy(&details).ends_with("\u{8}\u{6}"),
        "marked capacity"
    );
    let called = call(
        &server,
        "Run",
        "application/grpc",
        &[("grpc-timeout", "x")],
        envelope(&run("")),
    )
    .await;
    assert_eq!(
        (called.status, called.header("plimsoll-not-dispatched")),
        (400, Some("request"))
    );
    assert_eq!(server.runs(), 0);
}

#[tokio::test]
async fn a_passed_deadline_of_grpc_does_not_take_the_answer_from_the_handler() {
    let server = Server::open().await;
    let waiting = RunRequest::javascript("wait");
    let message = envelope(&to_binary(&pb::RunRequest::from(waiting)));
    let release = async {
        server.running(1).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        server.fake.release.notify_one();
    };
    let (called, ()) = tokio::join!(
        call(&server, "Run", "application/grpc", &[("grpc-timeout", "50m")], message),
        release
    );
    assert_eq!(
        called.grpc_status().0.as_deref(),
        Some("0"),
        "the RPC library ends no call"
    );
}

#[tokio::test]
async fn a_compressed_message_is_one_gzip_member() {
    let server = Server::open().await;
    let flagged = |message: &[u8]| {
        let mut framed = envelope(message);
        framed[0] = 1;
        framed
    };
    let encoding = [("grpc-encoding", "gzip")];
    let called = call(&server, "Run", "application/grpc", &encoding, flagged(&gzip(&run("")))).await;
    assert_eq!(called.grpc_status().0.as_deref(), Some("0"));
    let two = [gzip(&run("")), gzip(b"")].concat();
    let bomb = gzip(&vec![0; 16 * 1024 * 1024]);
    for (body, status) in [(two, "3"), (bomb, "8")] {
        let called = call(&server, "Run", "application/grpc", &encoding, flagged(&body)).await;
        assert_eq!(called.grpc_status().0.as_deref(), Some(status));
        assert_eq!(called.header("plimsoll-not-dispatched"), Some("request"));
    }
    assert_eq!(server.runs(), 1);
}
