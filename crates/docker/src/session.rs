//! Sessions: one container kept for many calls, with the guest binary as PID 1 and attached once.
//!
//! ```text
//! open ─► read back ─► run ─► sweep ─► run … ─► close      suspend and resume: the engine's freezer
//! ```
//!
//! No call is made by the engine: each is a plan on the one stream, so it costs what the guest costs. What the engine is asked
//! for is whether the container is still the one that was opened, before every call.

mod calls;
mod pool;
mod room;
mod smoke;
mod standing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    AdmittedOpen, Code, Evidence, GrantSupport, Outcome, PayloadEnvironment, Reason, Refusal, RunError, SessionEnd,
    SessionEnded, SessionEvidence, SessionSupport,
};
use plimsoll_guest_link::messages::Language;
use plimsoll_sandbox::{
    BoxFuture, OpenContext, ProviderFault, RunContext, Session, SessionCall, SessionPool, Sessions, Suspended,
};

use crate::answer::gone;
use crate::provider::{Docker, fault, time_limit};
use crate::run::too_late;
use crate::snapshot::Snapshot;
use pool::Ready;
pub(crate) use pool::WarmPool;
use room::{Room, RoomError};

/// What a container is declared to live beyond its session: its making and its removal.
const BESIDE_THE_SESSION: Duration = Duration::from_secs(60);

/// What sessions run, where the images are those of this state.
pub(crate) fn support(environment: PayloadEnvironment) -> SessionSupport {
    let spoken = |language: &String| Language::named(language).is_some();
    SessionSupport {
        environment: PayloadEnvironment {
            languages: environment
                .languages
                .iter()
                .filter(|language| spoken(language))
                .cloned()
                .collect(),
            ..environment
        },
        snippets: true,
        projects: true,
        grants: GrantSupport {
            javascript: true,
            project: true,
        },
        disk_bound: true,
    }
}

impl Docker {
    async fn open_session(&self, open: &AdmittedOpen, context: OpenContext) -> Result<Arc<dyn Session>, RunError> {
        let opening = async {
            match self.waited(open, context.disk_bytes).await {
                Some(opened) => Ok(opened),
                None => self.made(open, &context).await,
            }
        };
        let opened = tokio::select! {
            biased;
            () = context.cancelled.cancelled() => return Err(gone().into()),
            () = tokio::time::sleep_until(context.deadline.into()) => return Err(too_late().into()),
            opened = opening => opened?,
        };
        if let Some(pool) = self.warm_pool().await {
            pool.opened(open.languages());
        }
        Ok(Arc::new(opened))
    }

    /// A session in a sandbox that waited, under the state that is known. Where that allows none, or none is fit, the engine is
    /// asked.
    async fn waited(&self, open: &AdmittedOpen, disk_bytes: u64) -> Option<Kept> {
        let pool = self.warm_pool().await?;
        let snapshot = self.state().admissible_now()?;
        let evidence = measured(&self.state_as(Some(&snapshot)))?;
        open.recheck(&evidence).ok()?;
        let Ready { mut room, snapshot } = pool.claim(open.languages(), &snapshot, open.lifetime()).await?;
        room.keep(open.hold()).await;
        room.bound_disk(disk_bytes);
        Some(Kept::new(snapshot, evidence, room))
    }

    /// A session in a sandbox that is made for it.
    async fn made(&self, open: &AdmittedOpen, context: &OpenContext) -> Result<Kept, Refusal> {
        let (shared, stated) = self.ready(context.deadline, &context.cancelled).await?;
        let Some(evidence) = measured(&stated.evidence) else {
            return Err(Refusal::unsupported("provider docker keeps no sessions now"));
        };
        open.recheck(&evidence)?;
        let lives = open.lifetime() + BESIDE_THE_SESSION;
        let held = Some(open.hold());
        let room = Room::open(&shared.launcher, &stated.snapshot, lives, context.disk_bytes, held)
            .await
            .map_err(|cause| not_opened(&cause))?;
        Ok(Kept::new(stated.snapshot, evidence, room))
    }

    async fn warm_pool(&self) -> Option<&Arc<WarmPool>> {
        self.shared().await.ok()?.sessions.get()
    }

    async fn prove_sessions(&self) -> Result<(), ProviderFault> {
        let fault = fault("session smoke test");
        let shared = self.shared().await.map_err(|error| fault(&error))?;
        let snapshot = self.state().admissible().await.map_err(|error| fault(&error))?;
        let languages: Vec<Language> = self
            .state()
            .languages()
            .iter()
            .filter_map(|name| Language::named(name))
            .collect();
        let waited = match shared.sessions.get() {
            None => None,
            Some(pool) => match pool.claim(&[], &snapshot, smoke::LIVES).await {
                Some(Ready { room, .. }) => Some(room),
                None => return Err(fault(&"no sandbox of the session pool is fit")),
            },
        };
        Box::pin(smoke::prove(&shared.launcher, &snapshot, &languages, waited))
            .await
            .map_err(|error| fault(&error))
    }
}

/// What a session states whose sandbox was made under this evidence. It names no instance, as runs name none.
fn measured(stated: &Evidence) -> Option<SessionEvidence> {
    Some(SessionEvidence {
        provider: stated.provider,
        isolation: stated.isolation,
        support: stated.sessions.clone()?,
        instance: String::new(),
    })
}

/// Nothing of the caller's has run in the container that is no session's.
fn not_opened(cause: &RoomError) -> Refusal {
    Refusal::new(
        Code::Internal,
        Reason::Environment,
        format!("no container could be made for the session; nothing ran: {cause}"),
    )
}

impl Sessions for Docker {
    fn open<'a>(
        &'a self,
        open: &'a AdmittedOpen,
        context: OpenContext,
    ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
        Box::pin(self.open_session(open, context))
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(self.prove_sessions())
    }

    fn suspended_keeps_slot(&self) -> bool {
        true
    }

    fn pool(&self) -> Option<&dyn SessionPool> {
        Some(self)
    }
}

/// One session.
#[derive(Debug)]
struct Kept {
    /// What its container was launched under.
    snapshot: Arc<Snapshot>,
    evidence: SessionEvidence,
    room: Room,
}

impl Kept {
    fn new(snapshot: Arc<Snapshot>, evidence: SessionEvidence, room: Room) -> Self {
        Self {
            snapshot,
            evidence,
            room,
        }
    }

    async fn execute(&self, call: &SessionCall, context: RunContext) -> Result<Outcome, RunError> {
        call.recheck(&self.evidence)?;
        if context.cancelled.is_cancelled() {
            return Err(gone().into());
        }
        if context.deadline <= Instant::now() {
            return Err(too_late().into());
        }
        let inside = self.room.enter().await?;
        calls::run(
            inside,
            call,
            &context,
            self.time_limit(call),
            &self.snapshot,
            &self.evidence,
        )
        .await
    }
}

impl Session for Kept {
    fn evidence(&self) -> &SessionEvidence {
        &self.evidence
    }

    fn time_limit(&self, call: &SessionCall) -> Duration {
        time_limit(call.call())
    }

    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(self.execute(call, context))
    }

    fn sweep(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.room.sweep())
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
        Box::pin(async {
            self.room.freeze().await.map_err(|cause| fault("suspend")(&cause))?;
            Ok(Suspended::HoldsMemory)
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { self.room.thaw().await.map_err(|cause| fault("resume")(&cause)) })
    }

    fn ended(&self) -> Option<SessionEnded> {
        self.room.ended()
    }

    fn lost(&self) -> BoxFuture<'_, SessionEnded> {
        Box::pin(self.room.lost())
    }

    fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { self.room.close().await.map_err(|cause| fault("close")(&cause)) })
    }
}

/// An end of this kind, in words for the caller.
fn end(end: SessionEnd, detail: &str) -> SessionEnded {
    SessionEnded {
        end,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests;
