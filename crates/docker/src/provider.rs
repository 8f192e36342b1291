//! The provider: containers of a local engine, tier `container` under runc and `kernel` under gVisor.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use plimsoll_core::{
    Availability, Code, Environments, Evidence, GrantSupport, Isolation, Outcome, Payload, PayloadEnvironment, Reason,
    Refusal, Resources, RunError, Tier,
};
use plimsoll_sandbox::{AdmittedCall, BoxFuture, ProviderFault, RunContext, Sandbox, Sessions};
use tokio_util::sync::CancellationToken;

use crate::launch::{Launcher, Use};
use crate::orphans::{self, PrivateFolder};
use crate::pool::Pool;
use crate::run::{Run, too_late};
use crate::seccomp::{Confinement, UNCONFINED};
use crate::session::{self, WarmPool};
use crate::settings::DockerSettings;
use crate::smoke;
use crate::snapshot::Snapshot;
use crate::state::EngineState;
use crate::teardown::Teardown;

/// Time limit of a snippet that asks for none.
pub const DEFAULT_SNIPPET_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest snippet.
pub const MAX_SNIPPET_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of a project that asks for none.
pub const DEFAULT_PROJECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest project.
pub const MAX_PROJECT_TIMEOUT: Duration = Duration::from_secs(120);

/// Containers of a local engine.
#[derive(Debug)]
pub struct Docker {
    resources: Resources,
    pool_size: usize,
    state: Arc<EngineState>,
    now: RwLock<Now>,
    /// What needs a runtime and a folder; made by the first preflight.
    shared: tokio::sync::OnceCell<Shared>,
}

/// What is stated, and the state of the engine it comes from.
#[derive(Debug)]
struct Now {
    snapshot: Option<Arc<Snapshot>>,
    evidence: Arc<Evidence>,
}

/// What runs share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) pool: Arc<Pool>,
    /// Waiting session sandboxes, where there are to be any.
    pub(crate) sessions: OnceLock<Arc<WarmPool>>,
    pub(crate) teardown: Arc<Teardown>,
    pub(crate) folder: PrivateFolder,
}

impl Drop for Shared {
    /// The fillers hold the pools too, and would go on making containers that nobody can claim.
    fn drop(&mut self) {
        self.pool.stop();
        if let Some(sessions) = self.sessions.get() {
            sessions.stop();
        }
    }
}

/// A state of the engine, and what is stated about a run under it.
#[derive(Debug)]
pub(crate) struct Stated {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) evidence: Arc<Evidence>,
}

impl Docker {
    /// Builds the provider. Nothing is asked of the engine yet. `ready_pool` members wait for each use.
    pub fn new(settings: DockerSettings, resources: Resources, ready_pool: u32) -> Self {
        let stated = Now {
            snapshot: None,
            evidence: Arc::new(evidence(resources, None, &[])),
        };
        Self {
            state: Arc::new(EngineState::new(Arc::new(settings))),
            resources,
            pool_size: usize::try_from(ready_pool).unwrap_or(usize::MAX),
            now: RwLock::new(stated),
            shared: tokio::sync::OnceCell::new(),
        }
    }

    pub(crate) async fn shared(&self) -> io::Result<&Shared> {
        self.shared
            .get_or_try_init(|| async {
                let folder = PrivateFolder::open().await?;
                let teardown = Arc::new(Teardown::new());
                let launcher = Launcher::new(
                    folder.temp().to_owned(),
                    folder.path().to_owned(),
                    Arc::clone(&teardown),
                );
                Ok(Shared {
                    launcher: Arc::new(launcher),
                    pool: Arc::new(Pool::new(self.pool_size)),
                    sessions: OnceLock::new(),
                    teardown,
                    folder,
                })
            })
            .await
    }

    /// Puts what a state of the engine shows in the place of what was stated before. Without a state, what was proven is
    /// proven no more.
    pub(crate) fn state_as(&self, snapshot: Option<&Arc<Snapshot>>) -> Arc<Evidence> {
        {
            let now = self.now.read();
            let same = match (&now.snapshot, snapshot) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (None, None) => true,
                _ => false,
            };
            if same {
                return Arc::clone(&now.evidence);
            }
        }
        self.restate(snapshot)
    }

    pub(crate) fn restate(&self, snapshot: Option<&Arc<Snapshot>>) -> Arc<Evidence> {
        let languages = self.state.languages();
        let evidence = Arc::new(evidence(self.resources, snapshot.map(Arc::as_ref), &languages));
        *self.now.write() = Now {
            snapshot: snapshot.cloned(),
            evidence: Arc::clone(&evidence),
        };
        evidence
    }

    async fn look(&self) -> Result<(), ProviderFault> {
        let fault = fault("preflight");
        self.shared().await.map_err(|error| fault(&error))?;
        match self.state.admissible().await {
            Ok(snapshot) => {
                self.state_as(Some(&snapshot));
                Ok(())
            }
            Err(error) => {
                self.state_as(self.state.current().as_ref());
                Err(fault(&error))
            }
        }
    }

    async fn prove(&self) -> Result<(), ProviderFault> {
        let fault = fault("smoke test");
        let shared = self.shared().await.map_err(|error| fault(&error))?;
        let snapshot = self.state.admissible().await.map_err(|error| fault(&error))?;
        let proven = smoke::prove(&shared.launcher, shared.folder.path(), &snapshot)
            .await
            .map_err(|error| fault(&error))?;
        if matches!(snapshot.confinement, Confinement::Unconfined) && !snapshot.runtime.is_gvisor() {
            tracing::warn!("{UNCONFINED}");
        }
        self.state.proven(&snapshot, proven.languages);
        self.restate(Some(&snapshot));
        shared.pool.start(&shared.launcher, &self.state);
        Ok(())
    }

    pub(crate) const fn state(&self) -> &Arc<EngineState> {
        &self.state
    }

    async fn execute(&self, call: &AdmittedCall, context: RunContext) -> Result<Outcome, RunError> {
        // A floor that current evidence does not meet is told before anything about the engine.
        call.recheck(&self.evidence())?;
        let run = Run::new(call, &context, time_limit(call))?;
        let ready = self.ready(context.deadline, &context.cancelled).await;
        // A failed probe leaves no state; a moved tag leaves the tier as it is.
        call.recheck(&self.evidence())?;
        let (shared, stated) = ready?;
        run.answer(shared, &stated).await
    }

    /// The state to launch under now.
    ///
    /// # Errors
    /// Nothing ran: the engine is not ready, or the caller's time is over first.
    pub(crate) async fn ready(
        &self,
        deadline: Instant,
        cancelled: &CancellationToken,
    ) -> Result<(&Shared, Stated), Refusal> {
        let not_ready = |cause: &dyn std::fmt::Display| {
            let message = format!("the sandbox engine is not ready; nothing ran: {cause}");
            Refusal::new(Code::Internal, Reason::Environment, message)
        };
        let shared = self.shared().await.map_err(|cause| not_ready(&cause))?;
        let deadline = tokio::time::Instant::from_std(deadline);
        let admissible = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Err(crate::answer::gone()),
            () = tokio::time::sleep_until(deadline) => return Err(too_late()),
            admissible = self.state.admissible() => admissible,
        };
        match admissible {
            Ok(snapshot) => {
                let evidence = self.state_as(Some(&snapshot));
                Ok((shared, Stated { snapshot, evidence }))
            }
            Err(cause) => {
                self.state_as(self.state.current().as_ref());
                Err(not_ready(&cause))
            }
        }
    }
}

/// Makes a fault of a phase from its cause.
pub(crate) fn fault(phase: &'static str) -> impl Fn(&dyn std::fmt::Display) -> ProviderFault {
    move |cause| ProviderFault {
        phase,
        cause: cause.to_string(),
    }
}

/// What the provider states about itself: an identity only of what a probe has seen, and never a tag.
fn evidence(resources: Resources, snapshot: Option<&Snapshot>, languages: &[String]) -> Evidence {
    let environment = |of: Use, ceiling: Duration, languages: &[String]| {
        let image = snapshot.map(|snapshot| of.image(snapshot));
        PayloadEnvironment {
            identity: image.map_or_else(String::new, |image| image.identity()),
            max_timeout_ms: u32::try_from(ceiling.as_millis()).unwrap_or(u32::MAX),
            software_identity: image.map_or_else(String::new, |image| image.manifest.clone()),
            languages: languages.to_vec(),
        }
    };
    let project = environment(Use::Project, MAX_PROJECT_TIMEOUT, languages);
    Evidence {
        provider: "docker",
        availability: Availability::Serving,
        isolation: Isolation::Proven(snapshot.map_or(Tier::Container, Snapshot::tier)),
        environments: Environments {
            javascript: Some(environment(
                Use::Snippet,
                MAX_SNIPPET_TIMEOUT,
                &["javascript".to_owned()],
            )),
            project: Some(project.clone()),
            module: None,
        },
        grants: GrantSupport {
            javascript: true,
            project: true,
        },
        policy: String::new(),
        sessions: Some(session::support(project)),
        resources,
    }
}

/// The longest the guest of a call may run.
pub(crate) fn time_limit(call: &AdmittedCall) -> Duration {
    match call.payload() {
        Payload::JavaScript(_) => call.timeout(DEFAULT_SNIPPET_TIMEOUT, MAX_SNIPPET_TIMEOUT),
        Payload::Project(_) | Payload::Module(_) | Payload::Cell(_) => {
            call.timeout(DEFAULT_PROJECT_TIMEOUT, MAX_PROJECT_TIMEOUT)
        }
    }
}

impl Sandbox for Docker {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::clone(&self.now.read().evidence)
    }

    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(self.look())
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(self.prove())
    }

    fn time_limit(&self, call: &AdmittedCall) -> Duration {
        time_limit(call)
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }

    fn run<'a>(&'a self, call: &'a AdmittedCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(self.execute(call, context))
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<usize, ProviderFault>> {
        Box::pin(async {
            let fault = fault("reconcile");
            let Some(engine) = self.state.engine() else {
                return Ok(0);
            };
            let shared = self.shared().await.map_err(|error| fault(&error))?;
            orphans::reconcile(&engine, &shared.folder, |name| shared.teardown.holds(name))
                .await
                .map_err(|error| fault(&error))
        })
    }

    fn drain(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async {
            if let Some(shared) = self.shared.get() {
                shared.pool.empty().await;
                if let Some(sessions) = shared.sessions.get() {
                    sessions.empty().await;
                }
                shared.teardown.finished().await;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
