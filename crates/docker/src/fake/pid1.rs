//! A PID 1 that does what a test tells it to.

use plimsoll_guest_link::messages::{Direction, GuestMessage, HostMessage, Intake, Ready, Sender};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{FakeEngine, Reply, Stdio, piece};

/// What the fake PID 1 does, step by step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Reads until the opening frame is there.
    Opened,
    /// Reads until the plan is there.
    Planned,
    /// Says this in an honest frame.
    Say(GuestMessage),
    /// Writes these bytes to stdout.
    Noise(Vec<u8>),
    /// Writes these bytes to stderr.
    Beside(&'static str),
    /// Reads until the host wants the running call stopped.
    Stopped,
    /// Reads until the host asks whether it is there, and says so.
    Pinged,
    /// Stays, without a word.
    Stay,
    /// Ends, and its stream does not.
    Vanish,
}

struct Pid1 {
    stdio: Stdio,
    intake: Intake,
    sender: Option<Sender>,
}

impl Pid1 {
    async fn play(stdio: Stdio, acts: Vec<Act>) {
        let mut pid1 = Self {
            stdio,
            intake: Intake::new(),
            sender: None,
        };
        for act in acts {
            // The host may end the talk at any point; some tests are about that.
            if pid1.act(act).await.is_none() {
                return;
            }
        }
    }

    async fn act(&mut self, act: Act) -> Option<()> {
        match act {
            Act::Opened => match self.heard().await? {
                HostMessage::Open(open) => {
                    self.sender = Some(Sender::new(open.key, Direction::ToHost));
                }
                other => panic!("not an opening: {other:?}"),
            },
            Act::Planned => assert!(matches!(self.heard().await?, HostMessage::Run(_))),
            Act::Say(message) => self.say(&message).await?,
            Act::Pinged => {
                assert!(matches!(self.heard().await?, HostMessage::Ping));
                self.say(&GuestMessage::Heartbeat).await?;
            }
            Act::Stopped => assert!(matches!(self.heard().await?, HostMessage::Stop)),
            Act::Noise(bytes) => self.stdio.write_all(&piece(1, &bytes)).await.ok()?,
            Act::Beside(text) => self.stdio.write_all(&piece(2, text.as_bytes())).await.ok()?,
            Act::Stay | Act::Vanish => std::future::pending().await,
        }
        Some(())
    }

    async fn say(&mut self, message: &GuestMessage) -> Option<()> {
        let body = message.encode().unwrap();
        let frame = self.sender.as_mut().unwrap().frame(message.kind(), &body).unwrap();
        self.stdio.write_all(&piece(1, &frame)).await.ok()
    }

    async fn heard(&mut self) -> Option<HostMessage> {
        loop {
            if let Some(message) = self.intake.next_message().unwrap() {
                return Some(message);
            }
            let mut chunk = vec![0; 64 << 10];
            match self.stdio.read(&mut chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.intake.feed(&chunk[..read]),
            }
        }
    }
}

/// A PID 1 that takes the opening frame and waits.
pub(crate) fn ready() -> [Act; 2] {
    [Act::Opened, Act::Say(GuestMessage::Ready(Ready { version: 1 }))]
}

impl FakeEngine {
    /// Attach and wait answer as a container would; everything else of a container succeeds. One that stays has no exit.
    pub(crate) fn with_containers(&self, guest: Vec<Act>, exit: i64) {
        let stays = matches!(guest.last(), Some(Act::Stay));
        self.on_call("attach", move || {
            let guest = guest.clone();
            Reply::attach(move |stdio| Pid1::play(stdio, guest.clone()))
        });
        let waiting = parking_lot::Mutex::new(Vec::new());
        self.on_call("wait", move || {
            if !stays {
                return Reply::Json(200, json!({ "StatusCode": exit }));
            }
            let (unsent, reply) = Reply::later();
            waiting.lock().push(unsent);
            reply
        });
    }
}
