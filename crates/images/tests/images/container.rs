//! A container as runs have them: nobody's user, read-only root, no network, three places to write.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::support::{SOCKET, block_on};

/// What a shell command said on both its streams, and its exit code.
pub(crate) fn shell(image: &str, command: &str) -> (String, i64) {
    block_on(async {
        let size = "rw,noexec,nosuid,size=64m";
        let container = json!({
            "Image": image,
            "Entrypoint": ["/bin/sh", "-c", format!("exec 2>&1\n{command}")],
            "User": "64000:64000",
            "WorkingDir": "/work",
            "HostConfig": {
                "NetworkMode": "none", "ReadonlyRootfs": true, "CapDrop": ["ALL"],
                "Tmpfs": {"/tmp": size, "/work": format!("{size},mode=1777,uid=64000,gid=64000")},
            },
        });
        let created = call(Method::POST, "/containers/create", Some(container)).await;
        let id = created["Id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        call(Method::POST, &format!("/containers/{id}/start"), None).await;
        let ended = call(Method::POST, &format!("/containers/{id}/wait"), None).await;
        let said = unframed(&answer(Method::GET, &format!("/containers/{id}/logs?stdout=1&stderr=1"), None).await);
        call(Method::DELETE, &format!("/containers/{id}?force=1&v=1"), None).await;
        (said, ended["StatusCode"].as_i64().unwrap())
    })
}

pub(crate) fn remove_image(tag: &str) {
    block_on(call(Method::DELETE, &format!("/images/{tag}?force=1"), None));
}

async fn call(method: Method, path: &str, body: Option<Value>) -> Value {
    serde_json::from_slice(&answer(method, path, body).await).unwrap_or_default()
}

async fn answer(method: Method, path: &str, body: Option<Value>) -> Bytes {
    let stream = UnixStream::connect(SOCKET)
        .await
        .expect("these tests need a container engine");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(format!("/v1.41{path}"))
        .header("host", "engine")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// The output without the engine's frames: a word with the length in its last four bytes, then so many bytes.
fn unframed(mut log: &[u8]) -> String {
    let mut said = Vec::new();
    while let Some((head, rest)) = log.split_at_checked(8) {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let (content, rest) = rest.split_at(usize::try_from(length).unwrap());
        said.extend_from_slice(content);
        log = rest;
    }
    String::from_utf8_lossy(&said).into_owned()
}
