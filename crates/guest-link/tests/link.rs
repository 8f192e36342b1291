//! The link over an in-memory pipe: dispatch, what comes back, and what the end of the stream amounts to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use plimsoll_guest_link::messages::{
    Direction, End, Fault, GuestMessage, HostMessage, Intake, Key, LimitFacts, Plan, Prepare, ProjectPlan, Ready,
    Sender, SnippetEnd, SnippetPlan, Variable,
};
use plimsoll_guest_link::{GuestLink, OpenSpec, SendError, Verdict};
use tokio::io::AsyncWrite;

/// Takes `room` bytes and then breaks.
#[derive(Debug)]
struct Pipe {
    taken: Vec<u8>,
    room: usize,
}

impl Pipe {
    fn with_room(room: usize) -> Self {
        Self {
            taken: Vec::new(),
            room,
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let take = bytes.len().min(self.room).min(7);
        if take == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.room -= take;
        self.taken.extend_from_slice(&bytes[..take]);
        Poll::Ready(Ok(take))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn spec() -> OpenSpec {
    OpenSpec {
        prepare: Prepare::Snippet,
        env: vec![Variable::new("A", "1")],
        output_cap: 9,
    }
}

fn plan() -> Plan {
    Plan::Snippet(SnippetPlan {
        program: "1".into(),
        prelude: String::new(),
        timeout_ms: 1_000,
    })
}

fn end() -> GuestMessage {
    GuestMessage::SnippetEnd(SnippetEnd {
        end: End::Exited(0),
        timed_out: false,
        stdout: Default::default(),
        stderr: Default::default(),
        duration_ms: 1,
        limits: LimitFacts::default(),
    })
}

/// An opened link and the other end's way to speak.
async fn opened() -> (GuestLink<Pipe>, Sender, Intake) {
    let mut link = GuestLink::new(Pipe::with_room(usize::MAX)).unwrap();
    link.open(spec()).await.unwrap();
    let mut intake = Intake::new();
    intake.feed(&std::mem::take(&mut link.writer_mut().taken));
    let Ok(Some(HostMessage::Open(open))) = intake.next_message() else {
        panic!("no opening")
    };
    assert_eq!(
        (open.prepare, open.env, open.output_cap),
        (Prepare::Snippet, spec().env, 9)
    );
    (link, Sender::new(open.key, Direction::ToHost), intake)
}

fn frame(sender: &mut Sender, message: &GuestMessage) -> Vec<u8> {
    sender.frame(message.kind(), &message.encode().unwrap()).unwrap()
}

#[tokio::test]
async fn a_call_goes_there_and_back() {
    let (mut link, mut sender, mut intake) = opened().await;
    link.run(&plan()).await.unwrap();
    intake.feed(&link.writer_mut().taken);
    assert!(matches!(intake.next_message(), Ok(Some(HostMessage::Run(arrived))) if arrived == plan()));

    let sent = [
        GuestMessage::Ready(Ready { version: 1 }),
        GuestMessage::Started,
        GuestMessage::Heartbeat,
        end(),
    ];
    let bytes: Vec<u8> = sent.iter().flat_map(|message| frame(&mut sender, message)).collect();
    let (first, rest) = bytes.split_at(bytes.len() - 1);
    assert_eq!(link.feed(first), sent[..3]);
    assert_eq!(link.verdict(), Verdict::Unauthenticated);
    assert_eq!(link.feed(rest), sent[3..]);
    assert_eq!(link.verdict(), Verdict::Found);
    // The next plan has its own verdict.
    link.run(&Plan::Project(ProjectPlan::default())).await.unwrap();
    assert_eq!(link.verdict(), Verdict::NotFound);
}

#[tokio::test]
async fn the_end_of_a_stream_is_one_of_four_things() {
    let (mut link, mut sender, _) = opened().await;
    assert_eq!(link.verdict(), Verdict::NotFound);
    link.feed(&frame(&mut sender, &GuestMessage::Started));
    link.feed(b"noise");
    assert_eq!(link.verdict(), Verdict::NotFound);
    link.feed(b"PLIMSOLL1 forged\n");
    assert_eq!(link.verdict(), Verdict::Unauthenticated);
    link.feed(&sender.frame(b'p', b"{").unwrap());
    assert_eq!(link.verdict(), Verdict::Undecodable);
    assert!(link.undecodable().is_some());
    assert!(link.feed(&frame(&mut sender, &end())).is_empty());

    let (mut link, mut sender, _) = opened().await;
    let fault = GuestMessage::Fault(Fault { text: "no".into() });
    assert_eq!(link.feed(&frame(&mut sender, &fault)), [fault]);
    assert_eq!(link.verdict(), Verdict::Found);
}

#[tokio::test]
async fn every_sandbox_has_its_own_key() {
    let (mut one, _, _) = opened().await;
    let (_, mut sender_of_another, _) = opened().await;
    assert!(one.feed(&frame(&mut sender_of_another, &end())).is_empty());
    assert_eq!(one.verdict(), Verdict::Unauthenticated);
    let mut known = Sender::new(Key::new([0; 32]), Direction::ToHost);
    assert!(one.feed(&frame(&mut known, &end())).is_empty());
}

#[tokio::test]
async fn a_plan_is_dispatched_from_its_first_byte() {
    let opening = {
        let mut link = GuestLink::new(Pipe::with_room(usize::MAX)).unwrap();
        link.open(spec()).await.unwrap();
        link.writer_mut().taken.len()
    };
    for (room, expected) in [(0, false), (1, true), (40, true)] {
        let mut link = GuestLink::new(Pipe::with_room(opening + room)).unwrap();
        link.open(spec()).await.unwrap();
        let SendError { dispatched, source } = link.run(&plan()).await.unwrap_err();
        assert_eq!((dispatched, source.kind()), (expected, io::ErrorKind::BrokenPipe));
    }
    let mut link = GuestLink::new(Pipe::with_room(opening - 1)).unwrap();
    assert!(link.open(spec()).await.is_err());
}

#[tokio::test]
async fn a_plan_that_no_frame_holds_is_refused_before_it_is_dispatched() {
    let (mut link, _, _) = opened().await;
    let plan = Plan::Snippet(SnippetPlan {
        program: "x".repeat(17 << 20),
        prelude: String::new(),
        timeout_ms: 1,
    });
    let error = link.run(&plan).await.unwrap_err();
    assert!(!error.dispatched);
    assert!(error.to_string().contains("the limit is 16777216"), "{error}");
    assert!(link.writer_mut().taken.is_empty());
}
