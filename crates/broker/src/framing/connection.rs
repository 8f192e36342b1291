//! One connection of a guest: requests in turn, each within its times.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use socket2::SockRef;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout, timeout_at};

use super::Lent;
use super::body::{Framing, Incoming, READ};
use super::head::{Head, Scan};
use crate::answer::{ANSWER_BROKEN, BrokerAnswer, HEAD_LATE, Refused};

/// How long a connection may be silent between requests, and before its first.
const IDLE: Duration = Duration::from_secs(15);

/// From the first byte of a request to the end of its head.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// From the first byte of a request to the end of its body.
const WHOLE_TIME: Duration = Duration::from_secs(10);

/// From an answer's first byte to its last. Longer than the longest call, so that no answer is lost to a guest that was
/// patient enough to wait for it.
const WRITE_TIME: Duration = Duration::from_secs(65);

/// What is read of a refused body, so that a guest that is still sending reads the answer and not a broken connection.
const MAX_DISCARD: u64 = 4 << 20;

/// How long a connection that is over waits for the guest to close it.
const LINGER: Duration = Duration::from_secs(2);

/// Bodies up to this size are copied behind their head and written with it.
const ONE_WRITE: usize = 16 << 10;

/// What becomes of a connection after a request.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Next,
    /// The guest may have something to read yet.
    Linger,
    /// It is gone, silent or stuck.
    Cut,
}

/// Serves a connection until either side has had enough.
pub(super) async fn serve(mut stream: UnixStream, lent: Arc<Lent>) {
    let mut buffer = BytesMut::new();
    loop {
        match exchange(&mut stream, &mut buffer, &lent).await {
            Then::Next => {}
            Then::Linger => return linger(stream).await,
            Then::Cut => return,
        }
    }
}

/// One request and its answer.
async fn exchange(stream: &mut UnixStream, buffer: &mut BytesMut, lent: &Lent) -> Then {
    if buffer.is_empty() {
        // Nothing is kept for a guest that is silent.
        *buffer = BytesMut::new();
        match timeout(IDLE, fill(stream, buffer)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Then::Cut,
        }
    }
    let started = Instant::now();
    let head = match timeout_at(started + HEAD_TIME, read_head(stream, buffer)).await {
        Ok(Ok(head)) => head,
        Ok(Err(Unread::Gone)) => return Then::Cut,
        Ok(Err(Unread::Refused(refused))) => return refuse(stream, refused).await,
        Err(_) => return refuse(stream, HEAD_LATE).await,
    };
    let whole = AtomicBool::new(false);
    let deadline = started + WHOLE_TIME;
    let mut body = Incoming::new(stream, buffer, head.framing, head.wants_continue, deadline, &whole);
    let answer = match lent.now() {
        None => BrokerAnswer::no_grant(),
        Some(broker) => {
            let call = broker.call(&head.method, &head.target, &mut body);
            match while_there(call, &whole, stream).await {
                Some(answer) => answer,
                None => return Then::Cut,
            }
        }
    };
    let left = body.size_hint().lower();
    let (framing, owes_continue) = body.into_rest();
    // A guest that still waits for its go-ahead may now send the body or not; only the end of the connection is certain.
    let keep = head.keep_alive && left <= MAX_DISCARD && !owes_continue && framing != Framing::Lost;
    let is_head = &*head.method == b"HEAD";
    if !matches!(
        timeout(WRITE_TIME, write(stream, answer, is_head, keep)).await,
        Ok(Ok(()))
    ) {
        return Then::Cut;
    }
    if !keep {
        return Then::Linger;
    }
    let rest = Incoming::new(stream, buffer, framing, false, deadline, &whole);
    if discard(rest).await { Then::Next } else { Then::Linger }
}

/// Why there is no head.
enum Unread {
    Gone,
    Refused(Refused),
}

impl From<Refused> for Unread {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

async fn read_head(stream: &UnixStream, buffer: &mut BytesMut) -> Result<Head, Unread> {
    let mut scan = Scan::default();
    loop {
        if let Some(end) = scan.end(buffer)? {
            return Ok(Head::parse(&buffer.split_to(end).freeze())?);
        }
        fill(stream, buffer).await.map_err(|_| Unread::Gone)?;
    }
}

/// Reads at least a byte; the end of the stream is an error.
async fn fill(stream: &UnixStream, buffer: &mut BytesMut) -> io::Result<()> {
    loop {
        stream.readable().await?;
        buffer.reserve(READ);
        match stream.try_read_buf(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The output of `call`, or nothing when the guest closes the connection after it has sent its `whole` request.
async fn while_there<F: Future>(call: F, whole: &AtomicBool, stream: &UnixStream) -> Option<F::Output> {
    let (mut call, mut gone) = (pin!(call), pin!(gone(stream)));
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if whole.load(Ordering::Relaxed) => gone.as_mut().poll(cx).map(|()| None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Ends when the guest has closed the connection; never while it has only said that it sends no more, nor once it has sent
/// another request ahead.
async fn gone(stream: &UnixStream) {
    let mut byte = [MaybeUninit::uninit()];
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        let peek = stream.try_io(Interest::READABLE, || SockRef::from(stream).peek(&mut byte));
        match peek {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
            Ok(0) => match stream.ready(Interest::READABLE | Interest::WRITABLE).await {
                Ok(ready) if !ready.is_write_closed() => break,
                Ok(_) | Err(_) => return,
            },
            Ok(_) => break,
        }
    }
    std::future::pending::<()>().await;
}

async fn refuse(stream: &mut UnixStream, refused: Refused) -> Then {
    match timeout(WRITE_TIME, write(stream, refused.answer(), false, false)).await {
        Ok(Ok(())) => Then::Linger,
        Ok(Err(_)) | Err(_) => Then::Cut,
    }
}

async fn write(stream: &mut UnixStream, answer: BrokerAnswer, is_head: bool, keep: bool) -> io::Result<()> {
    // An answer before the answer is none; a client would wait on.
    let answer = match answer.status {
        200.. => answer,
        _ => ANSWER_BROKEN.answer(),
    };
    let has_body = !matches!(answer.status, 204 | 304);
    let body = if has_body && !is_head {
        answer.body.clone()
    } else {
        Bytes::new()
    };
    let reason = StatusCode::from_u16(answer.status)
        .ok()
        .and_then(|status| status.canonical_reason());
    let mut bytes = Vec::with_capacity(256 + body.len().min(ONE_WRITE));
    bytes.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", answer.status, reason.unwrap_or("")).as_bytes());
    bytes.extend_from_slice(b"Content-Type: ");
    bytes.extend_from_slice(answer.content_type.as_bytes());
    if has_body {
        bytes.extend_from_slice(format!("\r\nContent-Length: {}", answer.body.len()).as_bytes());
    }
    bytes.extend_from_slice(if keep {
        b"\r\n\r\n"
    } else {
        b"\r\nConnection: close\r\n\r\n"
    });
    if body.len() <= ONE_WRITE {
        bytes.extend_from_slice(&body);
        return stream.write_all(&bytes).await;
    }
    stream.write_all(&bytes).await?;
    stream.write_all(&body).await
}

/// Reads what is left of a body; false when it does not end.
async fn discard(mut body: Incoming<'_>) -> bool {
    let mut left = MAX_DISCARD;
    while let Some(frame) = body.frame().await {
        consume_budget().await;
        let size = match frame {
            Ok(frame) => frame.data_ref().map_or(0, Bytes::len) as u64,
            Err(_) => return false,
        };
        match left.checked_sub(size) {
            Some(less) => left = less,
            None => return false,
        }
    }
    true
}

/// Lets the guest read the answer: closing a socket with unread bytes in it fails the guest's next write.
async fn linger(mut stream: UnixStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let read_on = async {
        let (mut buffer, mut left) = (BytesMut::new(), MAX_DISCARD);
        while fill(&stream, &mut buffer).await.is_ok() {
            consume_budget().await;
            let Some(less) = left.checked_sub(buffer.len() as u64) else {
                return;
            };
            left = less;
            buffer.clear();
        }
    };
    let _ = timeout(LINGER, read_on).await;
}
