//! Opening a session in this process.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_core::limits::{DISPATCH_DEADLINE, PROTOCOL};
use plimsoll_core::{
    AdmittedOpen, AuthorizedOpen, Code, Fault, OpenRequest, Permit, Reason, Refusal, RunError, SoftwareRule, Tier,
};
use plimsoll_record::{Chain, Fingerprint};
use plimsoll_sandbox::{OpenContext, ProviderFault, Received, SESSION_BOUND, Session as Sandboxed, Sessions};
use tokio::sync::Mutex as Turn;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Kept, Session, State, Unattended};
use crate::embed::Sandbox;
use crate::embed::call::{FloorMissing, FloorStated, Stated};

/// How long a session lives whose holder does not say.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest life. Nobody waits longer, and a clock can still count it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long the proof of a provider's promises about sessions may take.
const PROOF: Duration = Duration::from_secs(120);

/// A session about to be opened. `F` is whether its floor is stated.
#[must_use = "nothing is opened until it is sent"]
pub struct OpenSession<'a, F = FloorMissing> {
    sandbox: &'a Sandbox,
    request: OpenRequest,
    lifetime: Duration,
    disk_mb: u32,
    state: PhantomData<fn() -> F>,
}

impl Sandbox {
    /// One sandbox to be kept for many calls. State the floor, then send it:
    ///
    /// ```
    /// # async fn example(sandbox: plimsoll::Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    /// use plimsoll::{Cell, Tier};
    ///
    /// let session = sandbox.open_session().floor(Tier::Process).send().await?;
    /// session.run_cell(Cell::javascript("let n = 41")).send().await?;
    /// let cell = session.run_cell(Cell::javascript("n + 1")).send().await?;
    /// assert_eq!(cell.stdout, b"42\n");
    /// plimsoll::verify_chain(&session.records())?;
    /// assert_eq!(session.close().await?.calls, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The provider's promises about sessions are proven once, with throwaway ones, before the first is opened.
    pub fn open_session(&self) -> OpenSession<'_> {
        OpenSession {
            sandbox: self,
            request: OpenRequest {
                protocol: PROTOCOL,
                ..OpenRequest::default()
            },
            lifetime: LIFETIME,
            disk_mb: self.session_disk_mb,
            state: PhantomData,
        }
    }
}

impl<'a> OpenSession<'a, FloorMissing> {
    /// Refuses to open it behind anything weaker, and to run a call behind anything weaker.
    pub fn floor(self, floor: Tier) -> OpenSession<'a, FloorStated> {
        self.stated(floor.as_str())
    }

    /// Accepts whatever wall the provider has.
    pub fn any_tier(self) -> OpenSession<'a, FloorStated> {
        self.stated("")
    }

    fn stated(mut self, floor: &str) -> OpenSession<'a, FloorStated> {
        floor.clone_into(&mut self.request.minimum_isolation);
        OpenSession {
            sandbox: self.sandbox,
            request: self.request,
            lifetime: self.lifetime,
            disk_mb: self.disk_mb,
            state: PhantomData,
        }
    }
}

impl<F> OpenSession<'_, F> {
    /// Accepts only this software, in every call. A provider that states no software identity refuses every rule.
    pub fn software(mut self, rule: &SoftwareRule) -> Self {
        self.request.software_rule = rule.to_text();
        self
    }

    /// How long the session may live, a day where nobody says and a year at most. A call that is under way when the time is
    /// over is cut.
    pub const fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// What the session may write, in MiB, measured after each call; 0 sets no bound, and where nobody says it is 1024. A session
    /// that wrote more has ended. A provider whose files are memory bounds them as memory and does not look at this.
    pub const fn disk_mb(mut self, disk_mb: u32) -> Self {
        self.disk_mb = disk_mb;
        self
    }

    /// Names a language whose interpreter is worth warming, `javascript` or `python`; without one the provider warms all it
    /// has.
    pub fn language(mut self, language: impl Into<String>) -> Self {
        self.request.languages.push(language.into());
        self
    }
}

impl<F: Stated> OpenSession<'_, F> {
    /// Opens the session. Dropping the future gives the open up, and what it has opened by then is removed.
    ///
    /// # Errors
    /// A refusal in every case but one: nothing ran, and why. A provider that panics is a fault.
    pub async fn send(self) -> Result<Session, RunError> {
        let sandbox = self.sandbox;
        let floor = self.request.minimum_isolation.parse::<Tier>().ok();
        let evidence = sandbox.evidence_for(floor).await;
        let open = AuthorizedOpen::new(self.request, &evidence)?;
        let bounded = evidence.sessions.as_ref().is_some_and(|support| support.disk_bound);
        let Some(sessions) = sandbox.provider.sessions() else {
            return Err(Refusal::unsupported("the provider keeps no sessions").into());
        };
        sandbox.prove(sessions).await?;
        let slot = match &sandbox.slots {
            Some(slots) => slots.acquire()?,
            None => Permit::new(()),
        };
        let lifetime = self.lifetime.min(LONGEST);
        let cancelled = CancellationToken::new();
        let opening = Opening {
            sandbox: sandbox.clone(),
            floor,
            open: open.admit(lifetime, slot.clone()),
            slot,
            expires: Instant::now() + lifetime,
        };
        let context = OpenContext {
            deadline: Received::now().instant() + DISPATCH_DEADLINE,
            cancelled: cancelled.clone(),
            disk_bytes: if bounded { u64::from(self.disk_mb) << 20 } else { 0 },
        };
        // In a task of its own it comes to an end although nobody may wait for that, and a panic stays there.
        let mut waiting = Waiting {
            task: Some(tokio::spawn(opening.run(context))),
            cancelled,
            unattended: sandbox.unattended.clone(),
        };
        waiting.opened().await
    }
}

/// Whoever waits for an open. Dropped before it came to its end, it gives the open up.
struct Waiting {
    task: Option<JoinHandle<Result<Session, RunError>>>,
    cancelled: CancellationToken,
    unattended: Unattended,
}

impl Waiting {
    async fn opened(&mut self) -> Result<Session, RunError> {
        let no_end = || Fault::internal("opening the session came to no end").into();
        let Some(task) = &mut self.task else {
            return Err(no_end());
        };
        let opened = task.await;
        self.task = None;
        opened.unwrap_or_else(|_| Err(no_end()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else {
            return;
        };
        self.cancelled.cancel();
        let unattended = self.unattended.one();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A session that was open all the same is dropped, which removes it.
                drop(task.await);
                drop(unattended);
            });
        }
    }
}

/// An open under way.
struct Opening {
    sandbox: Sandbox,
    floor: Option<Tier>,
    open: AdmittedOpen,
    slot: Permit,
    expires: Instant,
}

impl Opening {
    async fn run(self, context: OpenContext) -> Result<Session, RunError> {
        let session = self.open_sandbox(context).await?;
        if let Err(refusal) = self.open.recheck(session.evidence()) {
            discard(session).await;
            return Err(refusal.into());
        }
        let Some(fingerprint) = fresh_fingerprint() else {
            discard(session).await;
            return Err(Fault::internal("the system gives no random bytes for a session's name").into());
        };
        let kept = Arc::new(Kept {
            sandbox: self.sandbox,
            session,
            fingerprint: fingerprint.clone(),
            floor: self.floor,
            rule: self.open.rule().clone(),
            slot: Mutex::new(Some(self.slot)),
            turn: Arc::new(Turn::new(())),
            cut: CancellationToken::new(),
            state: Mutex::new(State {
                chain: Chain::new(fingerprint),
                ledger: Vec::new(),
                ended: None,
                leaving: None,
            }),
        });
        tokio::spawn(Arc::clone(&kept).watch(self.expires));
        Ok(Session { kept, open: true })
    }

    /// As the provider does it, but no longer than the deadline and the caller wait. An open that is dropped leaves nothing.
    async fn open_sandbox(&self, context: OpenContext) -> Result<Arc<dyn Sandboxed>, RunError> {
        let Some(sessions) = self.sandbox.provider.sessions() else {
            return Err(Refusal::unsupported("the provider keeps no sessions").into());
        };
        let (deadline, cancelled) = (context.deadline, context.cancelled.clone());
        tokio::select! {
            biased;
            opened = sessions.open(&self.open, context) => opened,
            () = cancelled.cancelled() => Err(Refusal::caller_gone("the open was given up; nothing was kept").into()),
            () = tokio::time::sleep_until(deadline.into()) => {
                let message = format!(
                    "the provider opened no session within {} s; nothing was kept",
                    DISPATCH_DEADLINE.as_secs()
                );
                Err(Refusal::too_late(message).into())
            }
        }
    }
}

/// Removes a sandbox that never became a session. That it does not fit is what must be told; one that does not go is looked for
/// at the next start.
async fn discard(session: Arc<dyn Sandboxed>) {
    drop(tokio::time::timeout(SESSION_BOUND, session.close()).await);
}

impl Sandbox {
    /// Proves the provider's promises about sessions, once for all clones.
    async fn prove(&self, sessions: &dyn Sessions) -> Result<(), Refusal> {
        let proof = self.sessions_proven.get_or_try_init(|| async {
            tokio::time::timeout(PROOF, sessions.smoke_test())
                .await
                .unwrap_or_else(|_| {
                    Err(ProviderFault {
                        phase: "session smoke test",
                        cause: format!("not proven within {} s", PROOF.as_secs()),
                    })
                })
        });
        if let Err(fault) = proof.await {
            let message = format!("sessions cannot be kept here: {fault}; nothing ran");
            return Err(Refusal::new(Code::Internal, Reason::Environment, message));
        }
        Ok(())
    }
}

impl<F> fmt::Debug for OpenSession<'_, F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenSession")
            .field("floor", &self.request.minimum_isolation)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// A name nobody can guess or meet twice. Here no secret stands behind it: whoever holds the session holds the value.
fn fresh_fingerprint() -> Option<Fingerprint> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(Fingerprint::of(&u128::from_be_bytes(bytes).to_string()))
}
