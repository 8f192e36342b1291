//! The container engine: images in, and which are there. Its API over its Unix socket, never its command.

use std::io::Read;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Frame;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::built::Built;
use crate::error::ImagesError;
use crate::store::Store;

/// The version of the interface: the oldest one asked for anywhere in this project.
const API: &str = "/v1.41";
/// Piece by piece, so that an image of any size takes the same memory.
const PIECE: usize = 1 << 20;
/// The most that is read of an answer: lines about progress, or a description.
const MAX_ANSWER: usize = 4 << 20;

/// A container engine.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: PathBuf,
}

impl Engine {
    /// The engine behind a Unix socket.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Loads a built image under its tag.
    ///
    /// # Errors
    ///
    /// When the engine cannot be reached or refuses it.
    pub async fn load(&self, store: &Store, built: &Built) -> Result<(), ImagesError> {
        let (archive, length) = built.archive(store)?;
        let (send, receive) = mpsc::channel(2);
        let reader = tokio::task::spawn_blocking(move || send_pieces(archive, &send));
        let request = Request::post(format!("{API}/images/load?quiet=1"))
            .header("host", "engine")
            .header("content-type", "application/x-tar")
            .header("content-length", length)
            .body(Pieces(receive))
            .map_err(|error| self.problem(error))?;
        let answer = self.call(request).await;
        // An engine that refuses early closes the connection: its answer says more than the reader's broken pipe.
        let _cut_short = reader.await;
        let (status, text) = answer?;
        let refused = text.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line["error"]
                .as_str()
                .or_else(|| line["message"].as_str())
                .map(str::to_owned)
        });
        match refused {
            Some(problem) => Err(self.problem(problem)),
            None if status.is_success() => Ok(()),
            None => Err(self.problem(format!("answered {status}"))),
        }
    }

    /// The content ID of the image under this tag, `sha256:` first; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the engine cannot be reached or does not answer the question.
    pub async fn image_id(&self, tag: &str) -> Result<Option<String>, ImagesError> {
        let request = Request::get(format!("{API}/images/{tag}/json"))
            .header("host", "engine")
            .body(Full::new(Bytes::new()))
            .map_err(|error| self.problem(error))?;
        let (status, text) = self.call(request).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let answer: serde_json::Value = serde_json::from_str(&text).map_err(|error| self.problem(error))?;
        match answer["Id"].as_str() {
            Some(id) if status.is_success() => Ok(Some(id.to_owned())),
            _ => Err(self.problem(format!("answered {status} when asked about {tag}"))),
        }
    }

    async fn call<B>(&self, request: Request<B>) -> Result<(StatusCode, String), ImagesError>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            self.problem(format!(
                "{error}; start the engine, or use --no-load and load the file of --out yourself"
            ))
        })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.problem(error))?;
        let connection = tokio::spawn(connection);
        let answer = self.answer(sender.send_request(request).await).await;
        connection.abort();
        answer
    }

    async fn answer(
        &self,
        response: hyper::Result<Response<hyper::body::Incoming>>,
    ) -> Result<(StatusCode, String), ImagesError> {
        let response = response.map_err(|error| self.problem(error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await
            .map_err(|error| self.problem(error))?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    }

    fn problem(&self, problem: impl std::fmt::Display) -> ImagesError {
        ImagesError::Engine {
            endpoint: self.socket.display().to_string(),
            problem: problem.to_string(),
        }
    }
}

fn send_pieces(mut archive: impl Read, send: &mpsc::Sender<std::io::Result<Bytes>>) {
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = archive.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        let (item, last) = match read {
            Ok(0) => return,
            Ok(_) => (Ok(Bytes::from(piece)), false),
            Err(error) => (Err(error), true),
        };
        // A closed channel means that nobody wants the rest.
        if send.blocking_send(item).is_err() || last {
            return;
        }
    }
}

/// The pieces as a body.
struct Pieces(mpsc::Receiver<std::io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(context)
            .map(|item| item.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_is_not_there_is_named_with_the_fix() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let engine = Engine::at("/nonexistent/engine.sock");
        let error = runtime.block_on(engine.image_id("x:y")).unwrap_err().to_string();
        assert!(
            error.starts_with("container engine at /nonexistent/engine.sock: ") && error.contains("--no-load"),
            "{error}"
        );
    }
}
