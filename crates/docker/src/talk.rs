//! One call's talk with PID 1: the plan goes in, one end comes out, and nothing is believed that is not authenticated.

use std::pin::Pin;
use std::time::Duration;

use plimsoll_guest_link::Verdict;
use plimsoll_guest_link::messages::{
    CellEnd, GuestMessage, Language, NotRun, Plan, ProbeFacts, Report, SnippetEnd, SweepEnd,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::channel::{Channel, Event};
use crate::launch::Member;

/// How long past a run's own time limit its sandbox may take to tell the end. PID 1 ends the guest's code itself, so this
/// passes only where PID 1 was stopped, starved or lost.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How a talk went.
#[derive(Debug)]
pub(crate) struct Talked {
    /// The first byte of the plan was written: nobody can say any more that nothing ran.
    pub(crate) dispatched: bool,
    /// PID 1 said that the call's code was started.
    pub(crate) started: bool,
    /// How it ended.
    pub(crate) ending: Ending,
}

/// How a talk ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The snippet ended.
    Snippet(Box<SnippetEnd>),
    /// The project ended.
    Report(Box<Report>),
    /// The facts that were asked for.
    Facts(Box<ProbeFacts>),
    /// The cell ended.
    Cell(Box<CellEnd>),
    /// Nothing of the session call's code ran.
    NotRun(NotRun),
    /// The interpreters that live.
    Warm(Vec<Language>),
    /// What the sweep has shown.
    Swept(Box<SweepEnd>),
    /// PID 1 gave up, in its words.
    Fault(String),
    /// The output ended, or went on after its sandbox was gone, without an end of the call.
    Closed(Verdict),
    /// The stream broke, in words for the log.
    Lost(String),
    /// Neither an end nor the container's end by the time limit and the grace.
    Expired,
    /// The caller went away.
    Cancelled,
}

/// Dispatches the plan and waits for its end. The stream of a sandbox that is gone is waited for no longer than [`GRACE`]: it
/// may never end (gVisor), and what it does not tell by then is no end of the guest's code.
pub(crate) async fn talk(member: &mut Member, plan: &Plan, limit: Duration, cancelled: &CancellationToken) -> Talked {
    let mut gone = std::pin::pin!(member.container.gone());
    let channel = &mut member.channel;
    let deadline = Instant::now() + limit + GRACE;
    let mut talked = Talked {
        dispatched: false,
        started: false,
        ending: Ending::Cancelled,
    };
    if cancelled.is_cancelled() {
        return talked;
    }
    // From the first poll on a byte may have been written, whatever becomes of the future.
    let sent = tokio::select! {
        biased;
        sent = channel.dispatch(plan) => Some(sent),
        () = cancelled.cancelled() => None,
        () = &mut gone => {
            talked.ending = Ending::Lost("it ended while the plan was written".to_owned());
            None
        }
        () = tokio::time::sleep_until(deadline) => {
            talked.ending = Ending::Expired;
            None
        }
    };
    talked.dispatched = match &sent {
        Some(Err(error)) => error.dispatched,
        Some(Ok(())) | None => true,
    };
    match sent {
        None => talked,
        Some(Err(error)) => Talked {
            ending: Ending::Lost(error.to_string()),
            ..talked
        },
        Some(Ok(())) => listen(channel, talked, deadline, cancelled, gone).await,
    }
}

async fn listen(
    channel: &mut Channel,
    mut talked: Talked,
    mut deadline: Instant,
    cancelled: &CancellationToken,
    mut gone: Pin<&mut impl Future<Output = ()>>,
) -> Talked {
    let mut is_gone = false;
    loop {
        let event = tokio::select! {
            biased;
            event = channel.next() => event,
            () = cancelled.cancelled() => return talked,
            () = &mut gone, if !is_gone => {
                is_gone = true;
                deadline = deadline.min(Instant::now() + GRACE);
                continue;
            }
            () = tokio::time::sleep_until(deadline) => {
                talked.ending = if is_gone { Ending::Closed(channel.verdict()) } else { Ending::Expired };
                return talked;
            }
        };
        if talked.hear(event, channel) {
            return talked;
        }
    }
}

impl Talked {
    /// Takes an event in, and answers whether it was the end.
    fn hear(&mut self, event: Event, channel: &Channel) -> bool {
        self.ending = match event {
            Event::Message(GuestMessage::Started) => {
                self.started = true;
                return false;
            }
            Event::Message(GuestMessage::Ready(_) | GuestMessage::Heartbeat) => return false,
            Event::Message(GuestMessage::SnippetEnd(end)) => Ending::Snippet(Box::new(end)),
            Event::Message(GuestMessage::Report(report)) => Ending::Report(Box::new(report)),
            Event::Message(GuestMessage::ProbeReport(facts)) => Ending::Facts(facts),
            Event::Message(GuestMessage::CellEnd(end)) => Ending::Cell(Box::new(end)),
            Event::Message(GuestMessage::NotRun(cause)) => Ending::NotRun(cause),
            Event::Message(GuestMessage::Warm(languages)) => Ending::Warm(languages),
            Event::Message(GuestMessage::Swept(end)) => Ending::Swept(Box::new(end)),
            Event::Message(GuestMessage::Fault(fault)) => Ending::Fault(fault.text),
            Event::Closed => Ending::Closed(channel.verdict()),
            Event::Lost(cause) => Ending::Lost(cause),
        };
        true
    }
}

/// As [`talk`], in a sandbox that is kept: once the call is over for whoever asked (`over` is ready), its code is stopped and
/// the end still waited for, so that the next plan finds PID 1 idle. The plan is written whole or the stream is given up:
/// half a frame would be the end of the sandbox.
pub(crate) async fn talk_in_session(
    member: &mut Member,
    plan: &Plan,
    limit: Duration,
    over: impl Future<Output = ()>,
) -> Talked {
    let mut gone = std::pin::pin!(member.container.gone());
    let channel = &mut member.channel;
    let mut deadline = Instant::now() + limit + GRACE;
    let mut talked = Talked {
        dispatched: false,
        started: false,
        ending: Ending::Expired,
    };
    let sent = tokio::select! {
        biased;
        sent = channel.dispatch(plan) => Some(sent),
        () = &mut gone => None,
        () = tokio::time::sleep_until(deadline) => None,
    };
    match sent {
        Some(Ok(())) => talked.dispatched = true,
        Some(Err(error)) => {
            talked.dispatched = error.dispatched;
            talked.ending = Ending::Lost(error.to_string());
            return talked;
        }
        None => {
            talked.dispatched = true;
            return talked;
        }
    }
    let mut over = std::pin::pin!(over);
    let (mut stopped, mut is_gone) = (false, false);
    loop {
        let event = tokio::select! {
            biased;
            event = channel.next() => event,
            () = &mut over, if !stopped => {
                stopped = true;
                deadline = deadline.min(Instant::now() + GRACE);
                match channel.stop().await {
                    Ok(()) => continue,
                    Err(error) => Event::Lost(error.to_string()),
                }
            }
            () = &mut gone, if !is_gone => {
                is_gone = true;
                deadline = deadline.min(Instant::now() + GRACE);
                continue;
            }
            () = tokio::time::sleep_until(deadline) => return talked,
        };
        if talked.hear(event, channel) {
            return talked;
        }
    }
}
