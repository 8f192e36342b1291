//! One sandbox's link.

use std::io;

use plimsoll_guest_messages::{
    CodecError, Direction, FrameError, GuestMessage, HostMessage, Key, Open, Plan, Prepare, Scanner, Sender, Variable,
    limits::PROTOCOL_VERSION,
};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

/// The link to one sandbox.
#[derive(Debug)]
pub struct GuestLink<W> {
    writer: W,
    key: Key,
    sender: Sender,
    scanner: Scanner,
    ended: bool,
}

/// What a sandbox is opened for.
#[derive(Clone, Debug)]
pub struct OpenSpec {
    /// What to make ready.
    pub prepare: Prepare,
    /// The image's `Env`, in its order.
    pub env: Vec<Variable>,
    /// Bytes kept of each stream of a snippet.
    pub output_cap: u64,
}

/// A plan that was not handed over.
#[derive(Debug, thiserror::Error)]
#[error("plan was not handed to the sandbox: {source}")]
pub struct SendError {
    /// The first byte of the plan had been written: from here on nobody can say that nothing ran.
    pub dispatched: bool,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// What the bytes of a sandbox amount to for the plan sent last, once there are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call's end was found.
    Found,
    /// No end, and nothing that looks like a frame beside those that verified.
    NotFound,
    /// No end, and starts of frames of which none verified.
    Unauthenticated,
    /// A frame verified, and its body is not of this version.
    Undecodable,
}

impl<W: AsyncWrite + Unpin + Send> GuestLink<W> {
    /// Draws a fresh key.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(writer: W) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(io::Error::other)?;
        Ok(Self::with_key(writer, Key::new(*bytes)))
    }

    fn with_key(writer: W, key: Key) -> Self {
        Self {
            writer,
            sender: Sender::new(key.clone(), Direction::ToGuest),
            scanner: Scanner::new(key.clone()),
            key,
            ended: false,
        }
    }

    /// Opens the sandbox. Nothing of any call is in this frame.
    ///
    /// # Errors
    /// When the sandbox does not take it.
    pub async fn open(&mut self, spec: OpenSpec) -> io::Result<()> {
        let message = HostMessage::Open(Open {
            version: PROTOCOL_VERSION,
            key: self.key.clone(),
            prepare: spec.prepare,
            env: spec.env,
            output_cap: spec.output_cap,
        });
        let body = Zeroizing::new(message.encode().map_err(unsendable)?);
        let frame = Zeroizing::new(self.sender.frame(message.kind(), &body).map_err(unsendable)?);
        self.writer.write_all(&frame).await?;
        self.writer.flush().await
    }

    /// Asks for a sign of life: the next message of an idle sandbox is a heartbeat. Nothing of any call is in this frame.
    ///
    /// # Errors
    /// When the sandbox does not take it.
    pub async fn ping(&mut self) -> io::Result<()> {
        self.say(&HostMessage::Ping).await
    }

    /// Has the code of the running call ended as if its time were up; the call's end comes as ever.
    ///
    /// # Errors
    /// When the sandbox does not take it.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.say(&HostMessage::Stop).await
    }

    async fn say(&mut self, message: &HostMessage) -> io::Result<()> {
        let body = message.encode().map_err(unsendable)?;
        let frame = self.sender.frame(message.kind(), &body).map_err(unsendable)?;
        self.writer.write_all(&frame).await?;
        self.writer.flush().await
    }

    /// Dispatches a plan.
    ///
    /// # Errors
    /// When the sandbox does not take it; the error says whether a byte of it had been written. A future that is dropped
    /// half-way must be taken for dispatched.
    pub async fn run(&mut self, plan: &Plan) -> Result<(), SendError> {
        let before = |source| SendError {
            dispatched: false,
            source,
        };
        let body = plan.encode().map_err(unsendable).map_err(before)?;
        let frame = self
            .sender
            .frame(Plan::KIND, &body)
            .map_err(unsendable)
            .map_err(before)?;
        self.ended = false;
        let mut written = 0;
        while written < frame.len() {
            let outcome = match self.writer.write(&frame[written..]).await {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                other => other,
            };
            written += outcome.map_err(|source| SendError {
                dispatched: written > 0,
                source,
            })?;
        }
        self.writer.flush().await.map_err(|source| SendError {
            dispatched: true,
            source,
        })
    }

    /// Takes bytes that came from the sandbox and answers the messages that are complete now, in order.
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<GuestMessage> {
        let messages = self.scanner.feed(chunk);
        self.ended |= messages.iter().any(GuestMessage::ends_call);
        messages
    }

    /// What the bytes so far amount to; of use when no more come.
    pub fn verdict(&self) -> Verdict {
        if self.ended {
            Verdict::Found
        } else if self.scanner.undecodable().is_some() {
            Verdict::Undecodable
        } else if self.scanner.forged() > 0 {
            Verdict::Unauthenticated
        } else {
            Verdict::NotFound
        }
    }

    /// True when the sandbox wrote more noise than the host reads; every later byte is dropped, an honest frame too.
    pub fn overflowed(&self) -> bool {
        self.scanner.overflowed()
    }

    /// Why a verified frame could not be read, for the log: names fields, never contents.
    pub fn undecodable(&self) -> Option<&CodecError> {
        self.scanner.undecodable()
    }

    /// The writer, for example to close it: PID 1 then ends its tree and itself.
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }
}

fn unsendable(error: impl Into<Unsendable>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.into())
}

#[derive(Debug, thiserror::Error)]
enum Unsendable {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}
