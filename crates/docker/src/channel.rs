//! The attached stdio of a container, with the guest binary at its other end.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use plimsoll_guest_link::messages::{GuestMessage, Plan};
use plimsoll_guest_link::{GuestLink, OpenSpec, SendError, Verdict};
use tokio::time::timeout;

use crate::engine::{Attached, AttachedInput, AttachedOutput, Source};

/// What runtime and engine write beside the frames is kept for the log only, and this much of it.
const BESIDE_BYTES: usize = 4096;

/// How long a waiting PID 1 may take to answer: it needs a third of a millisecond, and a loaded host some more.
const SIGN_OF_LIFE: Duration = Duration::from_millis(250);

/// Messages of PID 1 in, plans out.
#[derive(Debug)]
pub(crate) struct Channel {
    link: GuestLink<AttachedInput>,
    output: AttachedOutput,
    waiting: VecDeque<GuestMessage>,
    beside: Vec<u8>,
}

/// What comes next from a container.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message that verified.
    Message(GuestMessage),
    /// Its output ended.
    Closed,
    /// The attached stream broke, or carries nothing but noise.
    Lost(String),
}

impl Channel {
    /// Sends the opening frame.
    ///
    /// # Errors
    /// No randomness for a key, or a stream that does not take the frame.
    pub(crate) async fn open(attached: Attached, spec: OpenSpec) -> io::Result<Self> {
        let mut link = GuestLink::new(attached.input)?;
        link.open(spec).await?;
        Ok(Self {
            link,
            output: attached.output,
            waiting: VecDeque::new(),
            beside: Vec::new(),
        })
    }

    /// Hands a plan over.
    ///
    /// # Errors
    /// As [`GuestLink::run`]: the error says whether a byte had been written.
    pub(crate) async fn dispatch(&mut self, plan: &Plan) -> Result<(), SendError> {
        self.link.run(plan).await
    }

    /// Has the code of the running call ended as if its time were up.
    ///
    /// # Errors
    /// The stream does not take it.
    pub(crate) async fn stop(&mut self) -> io::Result<()> {
        self.link.stop().await
    }

    /// Whether the stream is known to be over. Looks at what has arrived and waits for nothing.
    pub(crate) async fn is_over(&mut self) -> bool {
        loop {
            let arrived = tokio::select! {
                biased;
                event = self.next() => event,
                () = std::future::ready(()) => return false,
            };
            match arrived {
                Event::Closed | Event::Lost(_) => return true,
                // A sign of life.
                Event::Message(_) => {}
            }
        }
    }

    /// The next thing that happens. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Event::Message(message);
            }
            if self.link.overflowed() {
                return Event::Lost("the container writes noise instead of frames".to_owned());
            }
            match self.output.next().await {
                Ok(Some(chunk)) if chunk.source == Source::Stdout => self.waiting.extend(self.link.feed(&chunk.bytes)),
                Ok(Some(chunk)) => {
                    let room = BESIDE_BYTES.saturating_sub(self.beside.len()).min(chunk.bytes.len());
                    self.beside.extend_from_slice(&chunk.bytes[..room]);
                }
                Ok(None) => return Event::Closed,
                Err(error) => return Event::Lost(error.to_string()),
            }
        }
    }

    /// Whether PID 1 of a container that waits is there and runs: not killed, removed, stopped or paused.
    pub(crate) async fn answers(&mut self) -> bool {
        let asked = async {
            self.link.ping().await.ok()?;
            match self.next().await {
                Event::Message(GuestMessage::Heartbeat) => Some(()),
                Event::Message(_) | Event::Closed | Event::Lost(_) => None,
            }
        };
        matches!(timeout(SIGN_OF_LIFE, asked).await, Ok(Some(())))
    }

    /// What the output amounts to once it ended without an end of the call.
    pub(crate) fn verdict(&self) -> Verdict {
        self.link.verdict()
    }

    /// What was written beside the frames, for the log.
    pub(crate) fn beside(&self) -> String {
        String::from_utf8_lossy(&self.beside).into_owned()
    }
}
