//! An API on this host that a grant leads to, and what it was asked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use plimsoll::grants::{GrantSpec, Profile, StaticMinter};
use plimsoll::{Project, ProjectRun, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The credential of every grant here.
pub(crate) const TOKEN: &str = "wharf-credential-7d1f94c2";

pub(crate) struct Upstream {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    serving: AbortHandle,
}

impl Upstream {
    /// Answers every request with its own method and path.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        Self {
            address,
            heads,
            serving: serving.abort_handle(),
        }
    }

    /// Request line and headers of everything it was asked.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// The request lines, without the version.
    pub(crate) fn lines(&self) -> Vec<String> {
        let heads = self.heads();
        let lines = heads.iter().map(|head| head.lines().next().unwrap());
        lines
            .map(|line| line.trim_end_matches(" HTTP/1.1").to_owned())
            .collect()
    }

    /// A project that may call berths here and must succeed.
    pub(crate) async fn berths(&self, sandbox: &Sandbox, project: Project) -> ProjectRun {
        let grant = self.grant(&["GET /berths/*", "POST /berths/*"], 10);
        let call = sandbox.run_project(project).any_tier().grant(grant, "tester").unwrap();
        let ran = call.send().await.unwrap();
        assert!(ran.succeeded(), "{} {:?}", ran.outcome_detail, ran.steps);
        ran
    }

    /// A grant of these routes (`GET /berths/*`) and this many calls.
    pub(crate) fn grant(&self, allow: &[&str], max_calls: i64) -> Profile {
        let mut spec = GrantSpec::new(format!("http://{}", self.address));
        let routes = allow.iter().map(|route| route.split_once(' ').unwrap());
        spec.allow = routes
            .map(|(method, path)| (method.to_owned(), path.to_owned()))
            .collect();
        spec.minter = Some(Arc::new(StaticMinter::new(TOKEN.to_owned().into()).unwrap()));
        spec.max_calls = max_calls;
        Profile::direct("berths", spec.validate().unwrap())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse::<usize>().unwrap())
            });
            let whole = end + 4 + length.unwrap_or(0);
            while read.len() < whole {
                match stream.read(&mut chunk).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => read.extend_from_slice(&chunk[..count]),
                }
            }
            let mut line = head.split(' ');
            let body = format!("{{\"asked\":\"{} {}\"}}", line.next().unwrap(), line.next().unwrap());
            seen.lock().unwrap().push(head);
            read.drain(..whole);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
}
