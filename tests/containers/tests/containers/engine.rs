//! The engine as somebody beside the provider sees it: plain requests over its socket, and throwaway images.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::sleep;

const SOCKET: &str = "/var/run/docker.sock";

/// Label of the private folder of the process that made a container.
pub(crate) const OWNER: &str = "io.plimsoll.owner";

/// Status and body of one request.
pub(crate) async fn request(method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
    request_at(Path::new(SOCKET), method, path, kind, body).await
}

/// The same of an engine at this socket.
pub(crate) async fn request_at(socket: &Path, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    // HTTP/1.0: one answer, not chunked, and its end is the end of the connection.
    let head = format!(
        "{method} /v1.41{path} HTTP/1.0\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer[end + 4..].to_vec())
}

/// A request that must succeed.
pub(crate) async fn ask(method: &str, path: &str) -> Vec<u8> {
    let (status, body) = request(method, path, "application/json", b"").await;
    assert!(
        status < 300,
        "{method} {path}: {status} {}",
        String::from_utf8_lossy(&body)
    );
    body
}

pub(crate) async fn json(path: &str) -> Value {
    serde_json::from_slice(&ask("GET", path).await).unwrap()
}

/// Containers of this provider, whoever owns them: from ID to owner.
pub(crate) async fn owners() -> BTreeMap<String, String> {
    let filter = "%7B%22label%22%3A%5B%22io.plimsoll.owner%22%5D%7D";
    let listed = json(&format!("/containers/json?all=true&filters={filter}")).await;
    let containers = listed.as_array().unwrap().iter();
    containers
        .map(|container| {
            let id = container["Id"].as_str().unwrap().to_owned();
            (id, container["Labels"][OWNER].as_str().unwrap().to_owned())
        })
        .collect()
}

/// IDs of the containers of one owner.
pub(crate) async fn owned_by(owner: &str) -> Vec<String> {
    let all = owners().await.into_iter();
    all.filter(|(_, of)| of == owner).map(|(id, _)| id).collect()
}

/// Waits until an owner's containers are gone, and `quiet` longer: none is made in their place.
pub(crate) async fn goes_for_good(owner: &str, quiet: Duration) {
    for _ in 0..40 {
        if owned_by(owner).await.is_empty() {
            sleep(quiet).await;
            assert_eq!(owned_by(owner).await, Vec::<String>::new());
            return;
        }
        sleep(Duration::from_millis(250)).await;
    }
    panic!("still there: {:?}", owned_by(owner).await);
}

/// What an image declares for its containers' environment.
pub(crate) async fn image_environment(image: &str) -> BTreeMap<String, String> {
    let image = json(&format!("/images/{image}/json")).await;
    let listed = image["Config"]["Env"].as_array().unwrap().iter();
    listed
        .map(|entry| entry.as_str().unwrap().split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Content ID of an image.
pub(crate) async fn image_id(image: &str) -> String {
    json(&format!("/images/{image}/json")).await["Id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// An image under a name of its own, removed by [`Throwaway::remove`].
pub(crate) struct Throwaway {
    name: String,
}

impl Throwaway {
    /// The name of an image nobody else uses.
    fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("plimsoll-container-tests/throwaway-{}-{nth}", std::process::id()),
        }
    }

    /// Built on the sandbox's own image from these lines of a Dockerfile, with these files beside it.
    pub(crate) async fn built(lines: &str, files: &[(&str, &str)]) -> Self {
        let image = Self::fresh();
        let recipe = format!("FROM plimsoll/sandbox:latest\n{lines}\n");
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in files.iter().chain(&[("Dockerfile", recipe.as_str())]) {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(content.len()).unwrap());
            header.set_mode(0o755);
            archive.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        let archive = archive.into_inner().unwrap();
        let path = format!("/build?t={}&networkmode=none&forcerm=true", image.name());
        let (status, told) = request("POST", &path, "application/x-tar", &archive).await;
        let told = String::from_utf8_lossy(&told);
        assert!(status == 200 && !told.contains("\"error\""), "{status} {told}");
        image
    }

    /// Another name of an image.
    pub(crate) async fn named_like(other: &str) -> Self {
        let image = Self::fresh();
        image.repoint(other).await;
        image
    }

    /// Makes the name stand for another image.
    pub(crate) async fn repoint(&self, other: &str) {
        ask("POST", &format!("/images/{other}/tag?repo={}&tag=latest", self.name)).await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn remove(self) {
        // Containers of it are removed behind their answers.
        let path = format!("/images/{}?force=true", self.name);
        for _ in 0..40 {
            let (status, _) = request("DELETE", &path, "application/json", b"").await;
            if status == 200 || status == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        panic!("the image {} stays", self.name);
    }
}
