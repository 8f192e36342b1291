//! PID 1 of every sandbox: it starts guest code, reports its end in authenticated frames, and kills its tree.
//!
//! Without an argument it is PID 1: it waits on standard input for its host's frames ([`hub`]), keeps a `node` waiting for
//! a snippet ([`snippet`]) or runs the steps of a project ([`project`]) or the calls of a session ([`session`]), and ends itself and everything else when its
//! input ends. With a role as argument it stands in for guest code ([`roles`]): it collects the facts that a smoke test
//! judges, or does what a hostile program would.
//!
//! One thread, no async. No other process can read its memory or descriptors, and it takes nothing from its environment.

mod beneath;
mod child;
mod environment;
mod facts;
mod hub;
mod interpreter;
mod probe;
mod project;
mod roles;
mod session;
mod snippet;
mod sys;
mod tree;

use std::process::ExitCode;
use std::time::Instant;

use plimsoll_guest_messages::limits::PROTOCOL_VERSION;
use plimsoll_guest_messages::{GuestMessage, Open, Plan, Prepare, Ready};

use crate::hub::{Hub, Stop};

/// The host wrote what no host of this version writes, or this is no sandbox.
const MISUSED: u8 = 2;
/// PID 1 could not do its work.
const FAULT: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next()) {
        (None, _) => first_process(),
        (Some(role), argument) => {
            sys::become_ordinary();
            let argument = argument.unwrap_or_default();
            roles::play(&role.to_string_lossy(), &argument.to_string_lossy())
        }
    }
}

fn first_process() -> ExitCode {
    if !rustix::process::getpid().is_init() {
        roles::complain("plimsoll-guest without a role must be the first process of a sandbox");
        return ExitCode::from(MISUSED);
    }
    if !sys::is_opaque() {
        roles::complain("plimsoll-guest cannot hide its memory from other processes");
        return ExitCode::from(FAULT);
    }
    if !sys::environment_is_empty() {
        let error = sys::start_over_without_environment();
        roles::complain(&format!("plimsoll-guest cannot drop its environment: {error}"));
        return ExitCode::from(FAULT);
    }
    sys::ignore_signals();
    let mut hub = match sys::own_descriptors().and_then(|()| Hub::new()) {
        Ok(hub) => hub,
        Err(error) => {
            roles::complain(&format!(
                "plimsoll-guest cannot take over its standard streams: {error}"
            ));
            return ExitCode::from(FAULT);
        }
    };
    let stop = serve(&mut hub);
    sys::kill_everything_else();
    ExitCode::from(match stop {
        Stop::HostGone => 0,
        Stop::Violation(text) => {
            hub.say_fault(&text);
            MISUSED
        }
        Stop::Fault(text) => {
            hub.say_fault(&text);
            FAULT
        }
    })
}

/// Serves the host until there is a reason to stop.
fn serve(hub: &mut Hub) -> Stop {
    let Err(stop) = serve_until_stopped(hub);
    stop
}

fn serve_until_stopped(hub: &mut Hub) -> Result<std::convert::Infallible, Stop> {
    let open = hub.opened()?;
    if open.env.iter().any(|variable| !variable.is_sound()) {
        return Err(Stop::Violation(
            "the image's environment has an entry that no process can have".into(),
        ));
    }
    facts::find_counters();
    match open.prepare {
        Prepare::Snippet => one_snippet(hub, &open),
        Prepare::Project | Prepare::Probe => projects_and_probes(hub, &open),
        Prepare::Session => session::serve(hub, &open),
    }
}

fn one_snippet(hub: &mut Hub, open: &Open) -> Result<std::convert::Infallible, Stop> {
    let mut waiting = snippet::Waiting::start(hub, open, None).map_err(|cause| Stop::Fault(cause.words))?;
    let plan = waiting.plan(hub)?;
    match waiting.run(hub, plan, Instant::now())? {
        Ok(end) => hub.send(&GuestMessage::SnippetEnd(end))?,
        Err(cause) => return Err(Stop::Fault(format!("the program was not started: {cause:?}"))),
    }
    loop {
        hub.wait(&mut [], None)?;
        if hub.plan()?.is_some() {
            return Err(Stop::Violation("a sandbox for a snippet takes one plan".into()));
        }
    }
}

fn projects_and_probes(hub: &mut Hub, open: &Open) -> Result<std::convert::Infallible, Stop> {
    hub.send(&GuestMessage::Ready(Ready {
        version: PROTOCOL_VERSION,
    }))?;
    loop {
        match hub.plan()? {
            Some(Plan::Project(plan)) => project::run(hub, &open.env, &plan)?,
            Some(Plan::Probe(plan)) => probe::run(hub, &plan)?,
            Some(Plan::Snippet(_)) => return Err(Stop::Violation("this sandbox has no node waiting".into())),
            Some(Plan::Cell(_) | Plan::Warm(_) | Plan::Sweep(_)) => {
                return Err(Stop::Violation("this sandbox is not a session's".into()));
            }
            None => hub.wait(&mut [], None)?,
        }
    }
}
