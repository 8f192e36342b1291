//! Behavioural evidence at start-up: throwaway containers, made and spoken to exactly as those of runs, show that every
//! wall stands. Whatever fails here, nothing is served.

mod judge;
mod pong;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{Diagnostics, JavaScriptResult, Limit, ProjectOutcome, ProjectResult};
use plimsoll_guest_link::messages::{Plan, Prepare, ProbeFacts, ProbePlan, ProjectPlan, SnippetPlan};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, Exited, NoAnswer, limit_ms};
use crate::container::GUEST_BINARY;
use crate::guard::Mounted;
use crate::launch::{LaunchError, Launcher, Member, Order, Use};
use crate::run::{reading, seen_from_the_host};
use crate::snapshot::Snapshot;
use crate::talk::{Ending, talk};
use judge::HostKernel;
use pong::Pong;

/// Longest proof in one container.
const PER_CONTAINER: Duration = Duration::from_secs(30);

/// Longest guest code of a proof.
const CODE: Duration = Duration::from_secs(20);

/// Memory in MiB beside one for each process, where as many are started as are allowed.
const MEMORY_BESIDE_PROCESSES: u32 = 256;

/// Processors of a run with which a proof ends well before its bounds, under both runtimes.
const ENOUGH_CPUS: f64 = 0.1;

/// What the snippet of the proof prints.
const TOKEN: &str = "plimsoll smoke test";

/// Takes memory until it is ended.
const NODE_BOMB: &str = "node -e 'const held = []; for (;;) held.push(Buffer.alloc(8 << 20, 1))'";

/// What was proven beyond that everything stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proven {
    /// Interpreters that answered in the project image.
    pub(crate) languages: Vec<String>,
}

/// A wall does not stand, or could not be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmokeError {
    /// No container to look at.
    #[error("{what}: {source}")]
    Launch {
        /// What was to be shown.
        what: &'static str,
        /// Why.
        source: LaunchError,
    },
    /// What was found.
    #[error("{what}: {found}")]
    Failed {
        /// What was to be shown.
        what: &'static str,
        /// What was found, and the fix where there is one.
        found: String,
    },
    /// No end.
    #[error("{what}: no end within {} s", PER_CONTAINER.as_secs())]
    TooSlow {
        /// What was to be shown.
        what: &'static str,
    },
    /// Any of these where a sandbox has hardly a processor, which most often is why.
    #[error(
        "{source}; SANDBOX_CPUS={cpus} leaves a sandbox little time to be tested in: set it to at least {ENOUGH_CPUS}, or unset it"
    )]
    Starved {
        /// As configured.
        cpus: f64,
        /// What was found.
        source: Box<SmokeError>,
    },
}

/// Shows it all, for every image.
///
/// # Errors
/// The first wall that does not stand.
pub(crate) async fn prove(launcher: &Launcher, folder: &Path, snapshot: &Arc<Snapshot>) -> Result<Proven, SmokeError> {
    let cpus = snapshot.limits.cpus;
    all(launcher, folder, snapshot).await.map_err(|error| {
        if cpus < ENOUGH_CPUS {
            starved(cpus, error)
        } else {
            error
        }
    })
}

fn starved(cpus: f64, error: SmokeError) -> SmokeError {
    SmokeError::Starved {
        cpus,
        source: Box::new(error),
    }
}

async fn all(launcher: &Launcher, folder: &Path, snapshot: &Arc<Snapshot>) -> Result<Proven, SmokeError> {
    let proof = Proof { launcher, snapshot };
    let host = HostKernel::read().map_err(|error| failed("host kernel", error.to_string()))?;
    let pong = Pong::open(folder).map_err(|error| failed("host socket", error.to_string()))?;
    proof.container(Use::Snippet, &host, Some(&pong)).await?;
    drop(pong);
    proof.container(Use::Project, &host, None).await?;
    proof.snippet().await?;
    let languages = proof.project().await?;
    proof.process_limit().await?;
    proof.out_of_memory().await?;
    Ok(Proven { languages })
}

fn failed(what: &'static str, found: impl Into<String>) -> SmokeError {
    SmokeError::Failed {
        what,
        found: found.into(),
    }
}

struct Proof<'a> {
    launcher: &'a Launcher,
    snapshot: &'a Arc<Snapshot>,
}

impl Proof<'_> {
    /// Root, writable set, mounts, identity, network, status, limits; with `pong`, the mounted socket too.
    async fn container(&self, of: Use, host: &HostKernel, pong: Option<&Pong>) -> Result<(), SmokeError> {
        const WHAT: &str = "container facts";
        let order = order(of, Prepare::Probe);
        let mounted = match pong {
            Some(pong) => Mounted::Other(pong.path().to_owned()),
            None => self
                .launcher
                .mounted()
                .await
                .map_err(|error| failed(WHAT, error.to_string()))?,
        };
        let gvisor = self.snapshot.runtime.is_gvisor();
        let mut member = self.made(WHAT, order, mounted).await?;
        let plan = Plan::Probe(ProbePlan {
            host_socket: pong.is_some(),
            banner: pong.is_some() && gvisor,
        });
        let facts = match self.talked(WHAT, &mut member, &plan).await? {
            Ending::Facts(facts) => facts,
            other => {
                let found = format!("{}: {}", answer::words(&other), member.channel.beside());
                return Err(failed(WHAT, found));
            }
        };
        judge::facts(&facts, &member.spec, host)
            .map_err(|found| failed(WHAT, format!("{} image: {found}", of.as_str())))?;
        if pong.is_some() {
            host_socket(&facts, gvisor)?;
        }
        if gvisor {
            if !facts.banner.is_empty() {
                tracing::info!(banner = %facts.banner, "the guest's kernel says");
            }
            let process = member.container.process().await;
            let process = process.ok_or_else(|| {
                failed(
                    "limits on the host",
                    "the engine's process numbers cannot be seen from here; run the daemon in the host's PID namespace",
                )
            })?;
            judge::groups(process.groups(), &member.spec).map_err(|found| failed("limits on the host", found))?;
        }
        member.container.ended_well();
        Ok(())
    }

    /// A snippet runs: an image whose PATH lacks node ends here.
    async fn snippet(&self) -> Result<(), SmokeError> {
        const WHAT: &str = "snippet";
        let mut member = self
            .made_with_socket(WHAT, order(Use::Snippet, Prepare::Snippet))
            .await?;
        let plan = Plan::Snippet(SnippetPlan {
            program: format!("console.log({TOKEN:?})"),
            prelude: String::new(),
            timeout_ms: limit_ms(CODE),
        });
        let result = self.snippet_result(WHAT, &mut member, &plan).await?;
        if result.exit_code != 0 || result.stdout != format!("{TOKEN}\n").into_bytes() {
            return Err(failed(
                WHAT,
                format!(
                    "node ended with {} and wrote {:?}, and {:?} on standard error",
                    result.exit_code,
                    String::from_utf8_lossy(&result.stdout),
                    String::from_utf8_lossy(&result.stderr)
                ),
            ));
        }
        Ok(())
    }

    /// PID 1 is out of reach, interpreters answer, and the whole tree dies.
    async fn project(&self) -> Result<Vec<String>, SmokeError> {
        let steps = [
            format!("{GUEST_BINARY} try-runner"),
            "node -e 'console.log(6*7)'".to_owned(),
            "if command -v python3 >/dev/null; then python3 -c 'print(6*7)'; fi".to_owned(),
            format!("{GUEST_BINARY} leave-processes"),
            "set -- /proc/[0-9]*; echo $#".to_owned(),
        ];
        let (result, _) = self.project_result("project", &steps, None).await?;
        let out = |step: usize| {
            result
                .steps
                .get(step)
                .map_or("", |step| std::str::from_utf8(&step.stdout).unwrap_or(""))
        };
        let said = |what: &'static str| failed(what, in_words(&result));
        let well = |step: usize| result.steps.get(step).is_some_and(|step| step.exit_code == 0);
        if !well(0) {
            return Err(said("PID 1 out of reach"));
        }
        if out(1) != "42\n" {
            return Err(said("node"));
        }
        let mut languages = vec!["javascript".to_owned()];
        match out(2) {
            "42\n" => languages.push("python".to_owned()),
            "" if well(2) => {}
            _ => return Err(said("python3")),
        }
        // PID 1 and the shell that counts.
        if !well(3) || out(4) != "2\n" {
            return Err(said("kill of the whole tree"));
        }
        if result.outcome != ProjectOutcome::COMPLETED {
            return Err(said("project"));
        }
        Ok(languages)
    }

    /// At the process limit a guest gets an ordinary error. With memory for as many processes: a run's own may end first.
    async fn process_limit(&self) -> Result<(), SmokeError> {
        const WHAT: &str = "process limit";
        let processes = self.snapshot.limits.processes;
        let memory = MEMORY_BESIDE_PROCESSES
            .saturating_add(processes)
            .max(self.snapshot.limits.memory_mib);
        let steps = [format!(
            "{GUEST_BINARY} fork-until-refused {}",
            processes.saturating_add(64)
        )];
        let (result, _) = self.project_result(WHAT, &steps, Some(memory)).await?;
        let refused = format!(" with {}\n", rustix::io::Errno::AGAIN.raw_os_error());
        let step = result.steps.first();
        if step.is_some_and(|step| step.exit_code == 0 && step.stdout_text().ends_with(&refused)) {
            return Ok(());
        }
        Err(failed(
            WHAT,
            format!(
                "{processes} processes, and one more is not refused: {}",
                in_words(&result)
            ),
        ))
    }

    /// Out of memory is told as such, in a child and in the main process of a step.
    async fn out_of_memory(&self) -> Result<(), SmokeError> {
        const WHAT: &str = "memory limit";
        let gvisor = self.snapshot.runtime.is_gvisor();
        let more = self.snapshot.limits.memory_mib.saturating_mul(2);
        // Under gVisor the host's killer takes what holds the memory: of node the process, of a plain program the sandbox.
        let bomb = if gvisor {
            NODE_BOMB.to_owned()
        } else {
            format!("{GUEST_BINARY} eat-memory {more}")
        };
        let steps = [format!("{bomb}; echo child $?"), format!("exec {bomb}")];
        let (result, whole) = self.project_result(WHAT, &steps, None).await?;
        let step = |at: usize| result.steps.get(at);
        // Under gVisor only the host counts, and it counts for the whole container.
        let told = |at: usize| {
            let diagnostics = if gvisor {
                Some(&whole)
            } else {
                step(at).map(|step| &step.diagnostics)
            };
            diagnostics.is_some_and(|diagnostics| diagnostics.limit_hit == Some(Limit::Memory))
        };
        let child = step(0).is_some_and(|step| step.stdout == b"child 137\n");
        let main = step(1).is_some_and(|step| step.exit_code == 137);
        if child && main && told(0) && told(1) {
            return Ok(());
        }
        Err(failed(
            WHAT,
            format!("a memory bomb was not ended as one: {}", in_words(&result)),
        ))
    }

    async fn snippet_result(
        &self,
        what: &'static str,
        member: &mut Member,
        plan: &Plan,
    ) -> Result<JavaScriptResult, SmokeError> {
        let talked = self.talk(what, member, plan).await?;
        let beside = member.channel.beside();
        let (result, _) =
            answer::snippet(talked, reading(self.snapshot), &beside).map_err(|error| no_answer(what, error))?;
        member.container.ended_well();
        Ok(result)
    }

    async fn project_result(
        &self,
        what: &'static str,
        steps: &[String],
        memory_mib: Option<u32>,
    ) -> Result<(ProjectResult, Diagnostics), SmokeError> {
        let made = Order {
            memory_mib,
            ..order(Use::Project, Prepare::Project)
        };
        let mut member = self.made_with_socket(what, made).await?;
        let plan = Plan::Project(ProjectPlan {
            steps: steps.to_vec(),
            step_timeout_ms: limit_ms(CODE),
            ..ProjectPlan::default()
        });
        let mut talked = self.talk(what, &mut member, &plan).await?;
        seen_from_the_host(&mut member, &mut talked).await;
        let beside = member.channel.beside();
        let answer = answer::project(talked, reading(self.snapshot), Exited::default(), &beside);
        let answer = answer.map_err(|error| no_answer(what, error))?;
        member.container.ended_well();
        Ok(answer)
    }

    async fn made_with_socket(&self, what: &'static str, order: Order) -> Result<Member, SmokeError> {
        let mounted = self
            .launcher
            .mounted()
            .await
            .map_err(|error| failed(what, error.to_string()))?;
        self.made(what, order, mounted).await
    }

    async fn made(&self, what: &'static str, order: Order, mounted: Mounted) -> Result<Member, SmokeError> {
        timeout(PER_CONTAINER, self.launcher.launch_with(self.snapshot, order, mounted))
            .await
            .map_err(|_| SmokeError::TooSlow { what })?
            .map_err(|source| SmokeError::Launch { what, source })
    }

    async fn talk(
        &self,
        what: &'static str,
        member: &mut Member,
        plan: &Plan,
    ) -> Result<crate::talk::Talked, SmokeError> {
        let nobody = CancellationToken::new();
        timeout(PER_CONTAINER, talk(member, plan, CODE, &nobody))
            .await
            .map_err(|_| SmokeError::TooSlow { what })
    }

    async fn talked(&self, what: &'static str, member: &mut Member, plan: &Plan) -> Result<Ending, SmokeError> {
        Ok(self.talk(what, member, plan).await?.ending)
    }
}

fn order(of: Use, prepare: Prepare) -> Order {
    Order {
        of,
        prepare,
        lives: PER_CONTAINER * 2,
        memory_mib: None,
        capacity: None,
    }
}

/// What the steps of a proof came to, for a log: each in a few words, and never more than that.
fn in_words(result: &ProjectResult) -> String {
    const SHOWN: usize = 300;
    let cut = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?} and more", &text[..end]),
        None => format!("{text:?}"),
    };
    let mut words = vec![result.outcome.as_str().to_owned()];
    if !result.outcome_detail.is_empty() {
        words.push(result.outcome_detail.clone());
    }
    for (number, step) in (1..).zip(&result.steps) {
        let mut word = format!("step {number} ended with {}", step.exit_code);
        for (text, of) in [(step.stdout_text(), "wrote"), (step.stderr_text(), "on standard error")] {
            if !text.is_empty() {
                word.push_str(&format!(", {of} {}", cut(&text)));
            }
        }
        if let Some(limit) = step.diagnostics.limit_hit {
            word.push_str(&format!(", at the limit {}", limit.as_str()));
        }
        words.push(word);
    }
    words.join("; ")
}

fn no_answer(what: &'static str, error: NoAnswer) -> SmokeError {
    let found = match error {
        NoAnswer::NotSent(cause) => cause,
        NoAnswer::Final(plimsoll_core::RunError::MayHaveRun(fault)) => fault.message().to_owned(),
        NoAnswer::Final(plimsoll_core::RunError::NotDispatched(refusal)) => refusal.message().to_owned(),
    };
    failed(what, found)
}

fn host_socket(facts: &ProbeFacts, gvisor: bool) -> Result<(), SmokeError> {
    match &facts.host_socket {
        Some(socket) if socket.answer == pong::ANSWER => Ok(()),
        other => {
            let found = match other {
                Some(socket) => format!("it answers {:?}, errno {}", socket.answer, socket.errno),
                None => "it says nothing of it".to_owned(),
            };
            let fix = if gvisor {
                "register runsc with --host-uds=open (plimsoll gvisor install does), and "
            } else {
                ""
            };
            Err(failed(
                "host socket",
                format!(
                    "a guest cannot reach the mounted socket ({found}), so no grant could be used; {fix}where the daemon \
                     has a file system of its own, as in a container, set TMPDIR to a folder that has the same path on the \
                     engine's host"
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StepResult;

    use super::*;

    #[test]
    fn a_proof_that_failed_on_hardly_a_processor_says_what_helps() {
        let told = starved(
            0.01,
            failed("memory limit", "a memory bomb was not ended as one: timed_out"),
        )
        .to_string();
        assert!(
            told.starts_with("memory limit: a memory bomb")
                && told.contains("SANDBOX_CPUS=0.01")
                && told.contains("at least 0.1"),
            "{told}"
        );
    }

    #[test]
    fn what_a_proof_found_is_told_in_words_and_not_as_a_dump() {
        let result = ProjectResult {
            outcome: ProjectOutcome::COMPLETED,
            steps: vec![
                StepResult {
                    exit_code: 137,
                    diagnostics: Diagnostics {
                        limit_hit: Some(Limit::Memory),
                        ..Diagnostics::default()
                    },
                    ..StepResult::default()
                },
                StepResult {
                    stdout: b"child 0\n".to_vec(),
                    stderr: vec![b'x'; 100_000],
                    ..StepResult::default()
                },
            ],
            ..ProjectResult::default()
        };
        let words = in_words(&result);
        let start = "completed; step 1 ended with 137, at the limit memory; \
                     step 2 ended with 0, wrote \"child 0\\n\", on standard error \"xxx";
        assert!(words.starts_with(start) && words.ends_with("x\" and more"), "{words}");
        assert!(words.len() < 500 && !words.contains("StepResult"), "{words}");
    }
}
