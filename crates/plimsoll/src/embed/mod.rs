//! A sandbox inside the embedder's own program.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use plimsoll_broker::{BrokerOptions, CauseObserver};
use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::vars::Lookup;
use plimsoll_core::{
    Evidence, Fault, Isolation, JavaScriptRun, Payload, Permit, Refusal, RunError, RunRequest, SoftwareRule, Tier,
    Validated,
};
use plimsoll_grants::{CallTrace, Profiles, SelectedGrant};
use plimsoll_record::{Answer, LiveAnswer, RunRecord, verify_live};
use plimsoll_sandbox::{
    DEFAULT_SESSION_DISK_MB, DispatchContext, ProviderFault, Received, Sandbox as Provider, dispatch, ensure_ready,
    session_disk_mb,
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::env::Environment;
use crate::registry::{self, Choice, Minimum};

mod builder;
mod call;
mod capacity;
mod error;
mod project;
mod run;
mod session;

pub use builder::WasmBuilder;
pub use call::{FloorMissing, FloorStated, RunCall, Stated};
use capacity::Slots;
pub use capacity::{Capacity, CapacityError};
pub use error::BuildError;
pub use project::Project;
pub use run::{ProjectRun, Run, RunKind, TakesGrant};
pub use session::{Cell, CellRun, OpenSession, Session, SessionCall, SessionSummary};

/// A provider that has proven itself, ready to run programs and projects. Cheap to clone; clones share their capacity.
///
/// Every run walks the same corridor as in the daemon: validated, authorized against current evidence, admitted,
/// dispatched, settled with a record, and here also verified before you see it.
#[derive(Clone)]
pub struct Sandbox {
    provider: Arc<dyn Provider>,
    slots: Option<Arc<Slots>>,
    grants: Option<Arc<Granting>>,
    causes: Option<Arc<dyn CauseObserver>>,
    /// Set once the provider's promises about sessions were proven.
    sessions_proven: Arc<OnceCell<()>>,
    /// What a session may write, in MiB, unless its open says.
    session_disk_mb: u32,
    /// What goes on of sessions although nobody waits for it.
    unattended: session::Unattended,
}

/// Whose grants a request may name.
struct Granting {
    profiles: Profiles,
    caller: String,
}

impl Sandbox {
    /// Starts configuring the embedded JavaScript provider, tier `process`.
    pub fn wasm() -> WasmBuilder {
        WasmBuilder::default()
    }

    /// The provider that runs nothing and says so: what [`Sandbox::from_env`] gives while no provider is chosen.
    pub fn disabled() -> Self {
        Self {
            provider: Arc::new(plimsoll_sandbox::Disabled),
            slots: None,
            grants: None,
            causes: None,
            sessions_proven: Arc::default(),
            session_disk_mb: DEFAULT_SESSION_DISK_MB,
            unattended: session::Unattended::default(),
        }
    }

    /// The provider the process environment chooses: `SANDBOX_PROVIDER` and the limits beside it, read as the daemon
    /// reads them. Unset, the sandbox is [`Sandbox::disabled`] and refuses every run.
    ///
    /// # Errors
    /// A malformed variable, a provider that is not ready, or one whose tier is below `SANDBOX_MIN_ISOLATION`.
    pub async fn from_env() -> Result<Self, BuildError> {
        Self::from_lookup(&Environment::of_process()).await
    }

    /// As [`Sandbox::from_env`], from variables of the caller's choice.
    ///
    /// # Errors
    /// As [`Sandbox::from_env`].
    pub async fn from_lookup(lookup: &dyn Lookup) -> Result<Self, BuildError> {
        Self::from_lookup_in(lookup, None).await
    }

    /// As [`Sandbox::from_lookup`], for a process that lives for one run: what takes longest to set up is left in `folder`
    /// for the next process of the same user. The folder is made where it is missing; one that others can write is not
    /// used.
    ///
    /// # Errors
    /// As [`Sandbox::from_env`].
    pub async fn from_lookup_in(lookup: &dyn Lookup, folder: Option<&Path>) -> Result<Self, BuildError> {
        let (minimum, choice, capacity) = Self::plan(lookup)?;
        let provider = choice.build_in(capacity.slots().unwrap_or(1), lookup, folder)?;
        let session_disk_mb = session_disk_mb(lookup)?.unwrap_or(DEFAULT_SESSION_DISK_MB);
        let sandbox = Self {
            session_disk_mb,
            ..Self::with_provider(provider).await?
        };
        let evidence = sandbox.evidence();
        minimum
            .met_by(evidence.provider, evidence.isolation)
            .map_err(BuildError::BelowMinimum)?;
        sandbox.with_capacity(capacity)
    }

    /// What [`Sandbox::from_lookup`] would refuse of these variables before it builds anything: a value that cannot be read, or
    /// values that do not go together, such as a ready pool larger than what may run at once. Starts nothing.
    ///
    /// # Errors
    /// As [`Sandbox::from_lookup`], except for what only the provider's own settings and its host decide.
    pub fn check(lookup: &dyn Lookup) -> Result<(), BuildError> {
        Self::plan(lookup).map(|_| ())
    }

    fn plan(lookup: &dyn Lookup) -> Result<(Minimum, Choice, Capacity), BuildError> {
        for var in registry::VARS.iter().copied().flatten().chain(registry::PLANNED) {
            var.check(lookup)?;
        }
        let minimum = Minimum::read(lookup)?;
        let choice = Choice::read(lookup)?;
        minimum.within_reach_of(choice).map_err(BuildError::BelowMinimum)?;
        let capacity = Capacity::from_lookup(&choice, lookup)?;
        choice.pool_within(capacity.slots().unwrap_or(u32::MAX))?;
        Ok((minimum, choice, capacity))
    }

    /// Takes any provider, proves it (preflight, then smoke test) and keeps it.
    ///
    /// # Errors
    /// When the provider is not ready.
    pub async fn with_provider(provider: Arc<dyn Provider>) -> Result<Self, BuildError> {
        if let Err(fault) = ensure_ready(&*provider).await {
            // Nobody is left who could ask for it later. That it is not ready is the cause to tell.
            let _: Result<(), _> = provider.drain().await;
            return Err(fault.into());
        }
        Ok(Self {
            provider,
            slots: None,
            grants: None,
            causes: None,
            sessions_proven: Arc::default(),
            session_disk_mb: DEFAULT_SESSION_DISK_MB,
            unattended: session::Unattended::default(),
        })
    }

    /// Bounds what runs at once. A run that does not fit is refused with reason `capacity`, never queued.
    ///
    /// # Errors
    /// When one run alone would not fit.
    pub fn with_capacity(mut self, capacity: Capacity) -> Result<Self, BuildError> {
        capacity.check()?;
        self.slots = Slots::new(capacity).map(Arc::new);
        Ok(self)
    }

    /// Lets a request name one of these profiles, as `caller`: a profile is usable if it lists the caller, who is also the
    /// subject of a minted token. For a grant of your own, without a file, see [`RunCall::grant`].
    #[must_use]
    pub fn with_grants(mut self, profiles: Profiles, caller: impl Into<String>) -> Self {
        let caller = caller.into();
        self.grants = Some(Arc::new(Granting { profiles, caller }));
        self
    }

    /// Has somebody told why a call of a grant's API got no answer. The program learns no more than that there was none: the
    /// cause names addresses and certificates of a network it has no part in.
    #[must_use]
    pub fn with_cause_observer(mut self, causes: Arc<dyn CauseObserver>) -> Self {
        self.causes = Some(causes);
        self
    }

    /// A JavaScript program. State the floor, then send it:
    ///
    /// ```
    /// # async fn example(sandbox: plimsoll::Sandbox) -> Result<(), plimsoll::RunError> {
    /// let run = sandbox.run_javascript("console.log(6 * 7)").floor(plimsoll::Tier::Process).send().await?;
    /// assert_eq!(run.stdout, b"42\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_javascript(&self, code: impl Into<String>) -> RunCall<'_, Run> {
        RunCall::new(
            self,
            Payload::JavaScript(JavaScriptRun {
                code: code.into(),
                grant_profile: String::new(),
            }),
        )
    }

    /// Files and steps: shell commands, and on `wasm`, which has no shell, `node FILE` only. State the floor, then send it:
    ///
    /// ```
    /// # async fn example(sandbox: plimsoll::Sandbox) -> Result<(), plimsoll::RunError> {
    /// # use plimsoll::{Project, Tier};
    /// let project = Project::new().file("a.js", "console.log(6 * 7)").step("node a.js > out.txt").artifact("out.txt");
    /// let run = sandbox.run_project(project).floor(Tier::Container).send().await?;
    /// assert!(run.succeeded(), "{} {:?}", run.outcome_detail, run.steps);
    /// assert_eq!(run.artifact("out.txt"), Some(&b"42\n"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_project(&self, project: Project) -> RunCall<'_, ProjectRun> {
        RunCall::new(self, project.into_payload())
    }

    /// Waits until nothing of past runs and ended sessions is left, and removes what was kept ready for later ones. For a
    /// program that is about to end: a run is answered before its sandbox has been cleared away. The sandbox can go on to run;
    /// clones share what is removed.
    ///
    /// # Errors
    /// What could not be removed.
    pub async fn drain(&self) -> Result<(), ProviderFault> {
        self.unattended.none().await;
        self.provider.drain().await
    }

    /// What the provider states about itself right now.
    pub fn evidence(&self) -> Arc<Evidence> {
        self.provider.evidence()
    }

    /// Runs a prepared request exactly as it is; not even the protocol number is filled in.
    ///
    /// For tools that hold a whole request already. The floor is the request's own, so an empty one means any tier.
    /// Dropping the future cancels the run.
    ///
    /// # Errors
    /// [`RunError::NotDispatched`] when nothing ran; [`RunError::MayHaveRun`] after dispatch, also when the settled
    /// record does not stand.
    pub async fn exchange(&self, request: RunRequest) -> Result<Answer, RunError> {
        let (answer, _) = self.settle(request, None).await?;
        Ok(answer)
    }

    /// As [`Sandbox::exchange`], with the grant the caller of this program holds in hand, and what was called through it.
    async fn settle(
        &self,
        request: RunRequest,
        held: Option<SelectedGrant>,
    ) -> Result<(Answer, Option<CallTrace>), RunError> {
        let received = Received::now();
        let floor = request.minimum_isolation.parse::<Tier>().ok();
        let validated = Validated::new(request)?.grant(|name| match (name, held) {
            (None, _) => Ok(None),
            (Some(_), Some(held)) => Ok(Some(held)),
            (Some(name), None) => self.look_up(name).map(Some),
        })?;
        let authorized = validated.authorize(&*self.evidence_for(floor).await)?;
        let permit = self
            .slots
            .as_ref()
            .map_or_else(|| Ok(Permit::new(())), |slots| slots.acquire())?;
        let cancelled = CancellationToken::new();
        let _cancel_on_drop = cancelled.clone().drop_guard();
        let context = DispatchContext {
            deadline: received.instant() + DISPATCH_DEADLINE,
            cancelled,
            broker: BrokerOptions {
                causes: self.causes.clone(),
                ..BrokerOptions::default()
            },
        };
        let settled = dispatch(&*self.provider, authorized.admit(permit), context, received)
            .await
            .settle();
        let answer = settled.answer?;
        stands(&answer, settled.call.request(), settled.call.rule()).map_err(|broken| {
            RunError::MayHaveRun(Fault::internal(format!(
                "the record of this run does not stand: {broken}"
            )))
        })?;
        Ok((answer, settled.trace))
    }

    fn look_up(&self, name: &str) -> Result<SelectedGrant, Refusal> {
        let Some(granting) = &self.grants else {
            return Err(no_profile(name));
        };
        let profile = granting.profiles.look_up(name, Some(&granting.caller))?;
        SelectedGrant::new(profile, Some(granting.caller.clone()))
    }

    /// Current evidence, refreshed by one preflight when the floor is above it: some providers state less than they can
    /// prove until they have looked.
    async fn evidence_for(&self, floor: Option<Tier>) -> Arc<Evidence> {
        let evidence = self.provider.evidence();
        if evidence.isolation.meets(floor) {
            return evidence;
        }
        // A failed preflight leaves the evidence as low as it was, and the floor then refuses.
        let _: Result<(), _> = self.provider.preflight().await;
        self.provider.evidence()
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = self.provider.evidence();
        out.debug_struct("Sandbox")
            .field("provider", &evidence.provider)
            .field("isolation", &evidence.isolation)
            .field("slots", &self.slots)
            .finish()
    }
}

/// The answer to a profile's name where there are no profiles: that of a name nobody may use.
fn no_profile(name: &str) -> Refusal {
    match Profiles::default().look_up(name, None) {
        Err(refusal) => refusal,
        Ok(_) => Refusal::permission("grant_profile is not available: this sandbox holds no profiles"),
    }
}

/// The checks a client makes on an answer to a single run: record, no chain, floor.
fn stands(answer: &Answer, request: &RunRequest, rule: &SoftwareRule) -> Result<(), String> {
    let record = stands_in(answer, request, rule)?;
    if !record.session.is_empty() || record.sequence != 0 || !record.previous_sha256.is_empty() {
        return Err("a single run's record is not part of a chain".to_owned());
    }
    Ok(())
}

/// The checks a client makes on every answer: record and floor. The chain is a session's own to follow.
fn stands_in<'a>(answer: &'a Answer, request: &RunRequest, rule: &SoftwareRule) -> Result<&'a RunRecord, String> {
    let live = LiveAnswer {
        provider: &answer.sandbox,
        isolation: &answer.isolation,
        environment: &answer.environment,
        software_identity: &answer.software_identity,
        instance: &answer.instance,
        result: answer.result.as_ref(),
    };
    let record = verify_live(request, rule, &live, answer.record.as_ref()).map_err(|fault| fault.to_string())?;
    let floor = request.minimum_isolation.parse::<Tier>().ok();
    if Isolation::from_wire(&record.isolation).meets(floor) {
        Ok(record)
    } else {
        Err(format!(
            "tier {} is below the floor {}",
            record.isolation, request.minimum_isolation
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_session_may_write_is_the_variables_or_a_gibibyte() {
        let read = |values: &[(&str, &str)]| {
            let environment =
                Environment::from_pairs([("SANDBOX_PROVIDER", "wasm")].into_iter().chain(values.iter().copied()));
            async move {
                Sandbox::from_lookup(&environment)
                    .await
                    .map(|sandbox| sandbox.session_disk_mb)
            }
        };
        assert_eq!(read(&[]).await.unwrap(), 1024);
        assert_eq!(read(&[("SANDBOX_SESSION_DISK_MB", "64")]).await.unwrap(), 64);
        assert_eq!(read(&[("SANDBOX_SESSION_DISK_MB", "0")]).await.unwrap(), 0);
        read(&[("SANDBOX_SESSION_DISK_MB", "much")]).await.unwrap_err();
    }

    #[tokio::test]
    async fn the_operators_minimum_holds_for_an_embedded_sandbox_too() {
        let build = |values: &[(&str, &str)]| {
            let environment = Environment::from_pairs(values.iter().copied());
            async move { Sandbox::from_lookup(&environment).await }
        };
        let wasm = ("SANDBOX_PROVIDER", "wasm");
        assert!(build(&[wasm, ("SANDBOX_MIN_ISOLATION", "process")]).await.is_ok());
        for values in [
            &[wasm, ("SANDBOX_MIN_ISOLATION", "vm")][..],
            &[("SANDBOX_MIN_ISOLATION", "process")],
        ] {
            let refused = build(values).await.unwrap_err();
            assert!(matches!(refused, BuildError::BelowMinimum(_)), "{refused}");
        }
    }
}
