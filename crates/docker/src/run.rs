//! One run: a container for this call and no other, from the pool or made for it, and what its guest made of the plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_broker::{Broker, GUEST_SOCKET, SOCKET_VARIABLE, node_client, node_module, python_client};
use plimsoll_core::{
    Code, Diagnostics, JavaScriptRun, Outcome, Payload, ProjectRun, Reason, Refusal, RunError, RunResult,
};
use plimsoll_guest_link::messages::{Plan, ProjectFile, ProjectPlan, SnippetPlan, Variable};
use plimsoll_sandbox::{AdmittedCall, RunContext};

use crate::answer::{self, Exited, NoAnswer, gone, limit_ms};
use crate::container::ProcessLimit;
use crate::launch::{Member, Order, Use};
use crate::limits_hit::Reading;
use crate::provider::{Shared, Stated};
use crate::snapshot::Snapshot;
use crate::talk::{Ending, GRACE, Talked, talk};

/// What a container is declared to live beyond the time limit of its run: its making, the grace and its removal.
const BESIDE_THE_RUN: Duration = Duration::from_secs(60);

/// How long the engine may take to tell the exit code of a container whose output has ended.
const EXIT_TOLD: Duration = Duration::from_secs(2);

/// A call on its way into a container.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) call: &'a AdmittedCall,
    pub(crate) context: &'a RunContext,
    pub(crate) limit: Duration,
    pub(crate) of: Use,
    pub(crate) plan: Plan,
}

impl<'a> Run<'a> {
    /// The plan of this call.
    ///
    /// # Errors
    /// A payload this provider does not run.
    pub(crate) fn new(call: &'a AdmittedCall, context: &'a RunContext, limit: Duration) -> Result<Self, Refusal> {
        let broker = context.broker.as_deref();
        let (of, plan) = match call.payload() {
            Payload::JavaScript(snippet) => (Use::Snippet, snippet_plan(snippet, broker, limit)),
            Payload::Project(project) => (Use::Project, project_plan(project, broker, limit)),
            Payload::Module(_) | Payload::Cell(_) => {
                return Err(Refusal::unsupported(
                    "provider docker runs javascript and project payloads only",
                ));
            }
        };
        Ok(Self {
            call,
            context,
            limit,
            of,
            plan,
        })
    }

    /// Runs it: in a waiting container if there is one, else in one made now.
    ///
    /// # Errors
    /// A refusal while no byte of the call was sent; an unmarked error afterwards.
    pub(crate) async fn answer(self, shared: &Shared, stated: &Stated) -> Result<Outcome, RunError> {
        let began = Instant::now();
        // Waiting containers may have died, been stopped or removed behind our back: each is tried once.
        while let Some(member) = shared.pool.claim(self.of, &stated.snapshot).await {
            match self.within(member, stated, began).await {
                Err(NoAnswer::NotSent(cause)) => {
                    tracing::warn!(%cause, of = self.of.as_str(), "a waiting container could not take a call");
                }
                Err(NoAnswer::Final(error)) => return Err(error),
                Ok(outcome) => return Ok(outcome),
            }
        }
        let member = self.made(shared, &stated.snapshot).await?;
        self.within(member, stated, began).await.map_err(|error| match error {
            NoAnswer::Final(error) => error,
            NoAnswer::NotSent(cause) => no_container(&cause).into(),
        })
    }

    /// A container made for this call.
    async fn made(&self, shared: &Shared, snapshot: &Arc<Snapshot>) -> Result<Member, Refusal> {
        let order = Order {
            of: self.of,
            prepare: self.of.prepare(),
            lives: self.limit + GRACE + BESIDE_THE_RUN,
            memory_mib: None,
            capacity: Some(self.call.hold()),
        };
        let deadline = tokio::time::Instant::from_std(self.context.deadline);
        tokio::select! {
            biased;
            () = self.context.cancelled.cancelled() => Err(gone()),
            () = tokio::time::sleep_until(deadline) => Err(too_late()),
            made = shared.launcher.launch(snapshot, order) => made.map_err(|cause| no_container(&cause)),
        }
    }

    async fn within(&self, mut member: Member, stated: &Stated, began: Instant) -> Result<Outcome, NoAnswer> {
        member.container.keep(self.call.hold());
        if let Some(broker) = &self.context.broker {
            member.container.lend(Arc::clone(broker));
        }
        let mut talked = talk(&mut member, &self.plan, self.limit, &self.context.cancelled).await;
        // The end was told; what is left of the container is nobody's business but the teardown's.
        member.container.take_back();
        let exit = self.exit(&mut member, &talked).await;
        if matches!(
            talked.ending,
            Ending::Snippet(_) | Ending::Report(_) | Ending::Closed(_)
        ) {
            member.container.ended_well();
        }
        seen_from_the_host(&mut member, &mut talked).await;
        let beside = member.channel.beside();
        let reading = reading(&member.snapshot);
        let (result, diagnostics) = match self.of {
            Use::Snippet => {
                let (result, diagnostics) = answer::snippet(talked, reading, &beside)?;
                (RunResult::JavaScript(result), diagnostics)
            }
            Use::Project => {
                let (result, diagnostics) = answer::project(talked, reading, exit, &beside)?;
                (RunResult::Project(result), diagnostics)
            }
        };
        Ok(self.outcome(&member.snapshot, stated, result, diagnostics, began))
    }

    /// How the container itself ended, where it matters: its output ended and PID 1 told nothing.
    async fn exit(&self, member: &mut Member, talked: &Talked) -> Exited {
        if !matches!(talked.ending, Ending::Closed(_)) {
            return Exited::default();
        }
        let out_of_memory = tokio::time::timeout(EXIT_TOLD, member.container.out_of_memory()).await;
        let told = tokio::time::timeout(EXIT_TOLD, member.container.exit()).await;
        Exited {
            code: told.ok().flatten().map(|exit| exit.code),
            out_of_memory: out_of_memory.unwrap_or(false),
        }
    }

    fn outcome(
        &self,
        snapshot: &Snapshot,
        stated: &Stated,
        result: RunResult,
        diagnostics: Diagnostics,
        began: Instant,
    ) -> Outcome {
        let image = self.of.image(snapshot);
        Outcome {
            result,
            isolation: stated.evidence.isolation,
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
            environment: image.identity(),
            software_identity: image.manifest.clone(),
            instance: String::new(),
            diagnostics,
        }
    }
}

/// Under gVisor the control group files inside are the runtime's own: what the limits did is read on the host.
pub(crate) async fn seen_from_the_host(member: &mut Member, talked: &mut Talked) {
    if !member.snapshot.runtime.is_gvisor() {
        return;
    }
    let limits = match &mut talked.ending {
        Ending::Snippet(end) => &mut end.limits,
        Ending::Report(report) => &mut report.limits,
        _ => return,
    };
    let Some(process) = member.container.process().await else {
        return;
    };
    // A container serves one call, so its whole count is the call's.
    limits.oom_kills = process.oom_kills().await;
    limits.peak_memory = process.groups().peak_memory();
}

/// How the facts of a container of this state are to be read.
pub(crate) fn reading(snapshot: &Snapshot) -> Reading {
    Reading {
        uncounted_tasks: ProcessLimit::new(snapshot.limits.processes, snapshot.runtime.is_gvisor()).inside,
    }
}

/// No byte of the program was sent, so nothing ran. The cause is the operator's: it may hold the engine's words, and a daemon
/// tells its callers an id instead.
pub(crate) fn no_container(cause: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(
        Code::Internal,
        Reason::Environment,
        format!("no container could be made for the run; nothing ran: {cause}"),
    )
}

/// The caller's time was up before a byte of the call was sent.
pub(crate) fn too_late() -> Refusal {
    Refusal::too_late(
        "the call's deadline passed before a sandbox was ready; nothing ran. Allow more time, or keep a ready pool",
    )
}

pub(crate) fn snippet_plan(snippet: &JavaScriptRun, broker: Option<&Broker>, limit: Duration) -> Plan {
    Plan::Snippet(SnippetPlan {
        program: snippet.code.clone(),
        prelude: broker.map_or_else(String::new, |broker| {
            let grant = broker.grant();
            format!("{}\n{}", node_client(grant), grant.preamble())
        }),
        timeout_ms: limit_ms(limit),
    })
}

pub(crate) fn project_plan(project: &ProjectRun, broker: Option<&Broker>, limit: Duration) -> Plan {
    let files = project.files.iter().map(|file| ProjectFile {
        path: file.path.clone(),
        content: file.content.clone(),
    });
    let mut env = Vec::new();
    if broker.is_some() {
        env.push(Variable::new(SOCKET_VARIABLE, GUEST_SOCKET));
    }
    Plan::Project(ProjectPlan {
        files: files.collect(),
        steps: project.steps.clone(),
        step_timeout_ms: limit_ms(limit),
        artifacts: project.artifacts.clone(),
        host_sdk: broker.map(|broker| node_module(broker.grant())),
        host_python: broker.map(|broker| python_client(broker.grant())),
        env,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_guest_link::messages::limits::HOST_API_SOCKET;

    use super::GUEST_SOCKET;

    #[test]
    fn the_guest_binary_and_the_broker_mean_one_socket() {
        assert_eq!(HOST_API_SOCKET, GUEST_SOCKET);
    }
}
