//! The three procedures as they travel: Connect in JSON and binary, and gRPC.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use plimsoll_core::*;
use plimsoll_record::Chain;
use plimsoll_service::auth::Auth;
use plimsoll_service::edge::{Drain, Edge, EdgeParts, Listener, Ready, Timeouts, serve};
use plimsoll_wire::{RemoteError, from_binary, pb, to_binary};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::*;

struct AlwaysReady;

impl Ready for AlwaysReady {
    fn ready(&self) -> plimsoll_sandbox::BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }
}

async fn listen(house: &House) -> std::net::SocketAddr {
    let edge = Edge::new(EdgeParts {
        handler: Arc::new(house.corridor.clone()),
        authenticator: Arc::new(Auth::open()),
        ready: Arc::new(AlwaysReady),
        refused_credentials: None,
        metrics: Arc::clone(&house.metrics),
        max_concurrent: 8,
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let drain = Drain {
        stop: CancellationToken::new(),
        budget: std::time::Duration::from_secs(5),
    };
    tokio::spawn(serve(Listener::new(listener, None), edge, Timeouts::RPC, 0, drain));
    address
}

async fn post(address: std::net::SocketAddr, procedure: &str, kind: &str, body: Vec<u8>) -> (u16, Bytes, HeaderMap) {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://a/plimsoll.v1.SandboxService/{procedure}"))
        .header("content-type", kind)
        .header("te", "trailers")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let collected = response.into_body().collect().await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    (status, collected.to_bytes(), trailers)
}

async fn post_json(address: std::net::SocketAddr, procedure: &str, body: Value) -> (u16, Value) {
    let body = body.to_string().into_bytes();
    let (status, answer, _) = post(address, procedure, "application/json", body).await;
    (status, serde_json::from_slice(&answer).unwrap())
}

/// The details of an error, by type.
fn details(error: &Value) -> Vec<&str> {
    let details = error["details"].as_array().unwrap();
    details.iter().map(|detail| detail["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_in_json_from_open_to_close() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "3")]);
    let address = listen(&house).await;
    let (status, stated) = post_json(address, "Describe", json!({})).await;
    assert_eq!((status, &stated["supportsSessions"]), (200, &json!(true)));
    assert_eq!(stated["sessionLifetimeMs"], 1_800_000);
    assert_eq!(
        stated["sessionEnvironment"]["languages"],
        json!(["javascript", "python"])
    );
    assert_eq!(stated["maxSessionsPerOwner"], 3);

    let (status, opened) = post_json(address, "OpenSession", json!({"protocol": 4})).await;
    assert_eq!(status, 200, "{opened}");
    let id = opened["sessionId"].as_str().unwrap();
    let call = |code: &str| json!({"protocol": 4, "sessionId": id, "cell": {"language": "python", "code": code}});
    let (status, answer) = post_json(address, "SessionRun", call("42")).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["run"]["cell"]["stdout"], "NDI=");
    assert_eq!(answer["run"]["record"]["sequence"], "1");
    assert_eq!(answer["run"]["record"]["session"], opened["session"]);
    assert_eq!(answer.get("ended"), None);

    let (status, error) = post_json(address, "SessionRun", call("break")).await;
    assert_eq!((status, &error["code"]), (500, &json!("internal")));
    assert_eq!(details(&error), ["plimsoll.v1.UnansweredCall"]);
    assert!(!error.to_string().contains("/var/lib/secret"), "{error}");

    let (status, answer) = post_json(address, "SessionRun", call("disk")).await;
    assert_eq!((status, &answer["ended"]), (200, &json!("SESSION_END_DISK_EXCEEDED")));
    assert_eq!(answer["endDetail"], "it wrote too much");
    let (status, error) = post_json(address, "SessionRun", call("1")).await;
    assert_eq!((status, &error["code"]), (400, &json!("failed_precondition")));
    assert_eq!(
        details(&error),
        ["plimsoll.v1.NotDispatched", "plimsoll.v1.SessionEnded"]
    );

    let (status, closed) = post_json(address, "CloseSession", json!({"protocol": 4, "sessionId": id})).await;
    assert_eq!(status, 200, "{closed}");
    assert_eq!(
        (&closed["calls"], &closed["ended"]),
        (&json!("3"), &json!("SESSION_END_DISK_EXCEEDED"))
    );
    assert_eq!(closed["session"], opened["session"]);
}

#[tokio::test]
async fn an_unknown_session_carries_the_published_detail() {
    let house = House::new(&[]);
    let address = listen(&house).await;
    let unknown = json!({"protocol": 4, "sessionId": "0".repeat(32)});
    let (status, error) = post_json(address, "CloseSession", unknown).await;
    assert_eq!((status, &error["code"]), (404, &json!("not_found")));
    assert_eq!(
        error["details"][1]["value"],
        "CAkSH25vIHN1Y2ggc2Vzc2lvbiBmb3IgdGhpcyBjYWxsZXI"
    );
}

#[tokio::test]
async fn the_protocol_is_checked_before_the_session() {
    let house = House::new(&[]);
    let address = listen(&house).await;
    for procedure in ["OpenSession", "SessionRun", "CloseSession"] {
        for (protocol, code) in [(0, "invalid_argument"), (3, "unimplemented"), (999, "unimplemented")] {
            let (_, error) = post_json(address, procedure, json!({"protocol": protocol})).await;
            assert_eq!(error["code"], code, "{procedure} {protocol}");
            assert_eq!(error["details"][0]["value"], "CAM", "{procedure} {protocol}");
        }
    }
}

#[tokio::test]
async fn a_session_in_binary_and_in_grpc_chains_like_any_other() {
    for kind in ["application/proto", "application/grpc"] {
        let house = House::new(&[]);
        let address = listen(&house).await;
        let grpc = kind == "application/grpc";
        let ask = |procedure: &'static str, message: Vec<u8>| async move {
            let body = if grpc { envelope(&message) } else { message };
            let (status, answer, trailers) = post(address, procedure, kind, body).await;
            assert_eq!(status, 200, "{procedure} in {kind}: {trailers:?}");
            if grpc { answer.slice(5..) } else { answer }
        };
        let open = pb::OpenSessionRequest {
            protocol: 4,
            ..Default::default()
        };
        let opened = ask("OpenSession", to_binary(&open)).await;
        let opened = OpenedSession::from(from_binary::<pb::OpenSessionResponse>(&opened).unwrap());
        let mut chain = Chain::new(plimsoll_record::Fingerprint::of(opened.session_id.reveal()));
        for code in ["1", "2"] {
            let call = pb::SessionRunRequest::from(cell(&opened.session_id, code));
            let answer = ask("SessionRun", to_binary(&call)).await;
            let answer = from_binary::<pb::SessionRunResponse>(&answer).unwrap();
            let answer = plimsoll_record::SessionAnswer::from(answer);
            chain.follow(&answer.run.record.unwrap()).unwrap();
        }
        let close = pb::CloseSessionRequest::from(closing(&opened.session_id));
        let closed = ask("CloseSession", to_binary(&close)).await;
        let closed = ClosedSession::from(from_binary::<pb::CloseSessionResponse>(&closed).unwrap());
        assert_eq!(
            (closed.calls, closed.last_record_sha256.as_str()),
            (2, chain.last_sha256())
        );
        assert_eq!(closed.ended, SessionEnd::Closed);
    }
}

#[tokio::test]
async fn a_connect_timeout_that_passes_during_a_call_is_unmarked_with_its_record() {
    let house = House::new(&[]);
    let address = listen(&house).await;
    let id = house.open("").await.unwrap().session_id;
    let body = json!({"protocol": 4, "sessionId": id.reveal(), "cell": {"language": "python", "code": "hang"}});
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("/plimsoll.v1.SandboxService/SessionRun")
        .header("host", "a")
        .header("content-type", "application/json")
        .header("connect-timeout-ms", "100")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), 504);
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    let error = RemoteError::parse(504, &answer);
    assert_eq!(error.unanswered.unwrap().unanswered, "deadline_exceeded");
    let next = house.cell("", &id, "next").await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
}

fn envelope(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    framed
}
