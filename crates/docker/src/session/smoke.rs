//! Behavioural evidence for sessions at start-up: every promise, in one throwaway session.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_guest_link::messages::{CellOutcome, CellPlan, Language, Plan, ProjectPlan, SnippetPlan};
use tokio::time::timeout;

use super::calls::nonce;
use super::room::{Room, RoomError};
use crate::answer::limit_ms;
use crate::container::GUEST_BINARY;
use crate::launch::Launcher;
use crate::snapshot::Snapshot;
use crate::talk::Ending;

/// Longest proof.
const WHOLE: Duration = Duration::from_secs(120);

/// Longest call of it.
const PER_CALL: Duration = Duration::from_secs(30);

/// Longest life of its container.
pub(crate) const LIVES: Duration = Duration::from_secs(180);

/// A promise is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionSmokeError {
    /// No session.
    #[error("sessions: {0}")]
    Room(#[from] RoomError),
    /// What was found.
    #[error("sessions: {what}: {found}")]
    Broken {
        /// What was to be shown.
        what: &'static str,
        /// What was found.
        found: String,
    },
    /// No end.
    #[error("sessions: no end within {} s", WHOLE.as_secs())]
    TooSlow,
}

/// Shows it all, in a sandbox that waited if there is one.
///
/// # Errors
/// The first promise that is not kept.
pub(crate) async fn prove(
    launcher: &Launcher,
    snapshot: &Arc<Snapshot>,
    languages: &[Language],
    waited: Option<Room>,
) -> Result<(), SessionSmokeError> {
    let proof = async {
        let room = match waited {
            Some(room) => room,
            None => Room::open(launcher, snapshot, LIVES, 0, None).await?,
        };
        let proof = Proof {
            room: &room,
            gvisor: snapshot.runtime.is_gvisor(),
        };
        proof.all(languages).await?;
        room.close().await.map_err(|error| broken("close", error.to_string()))
    };
    timeout(WHOLE, proof).await.unwrap_or(Err(SessionSmokeError::TooSlow))
}

fn broken(what: &'static str, found: impl Into<String>) -> SessionSmokeError {
    SessionSmokeError::Broken {
        what,
        found: found.into(),
    }
}

struct Proof<'a> {
    room: &'a Room,
    gvisor: bool,
}

impl Proof<'_> {
    async fn all(&self, languages: &[Language]) -> Result<(), SessionSmokeError> {
        self.step("files", "echo kept > kept.txt; (setsid sleep 1000 &) ; exit 3", 3, "")
            .await?;
        for language in languages {
            self.cell("state", *language, "kept = 41", "").await?;
        }
        for language in languages {
            self.cell("state", *language, "kept + 1", "42\n").await?;
        }
        if languages.contains(&Language::JavaScript) {
            self.isolation().await?;
        }
        self.suspend(languages).await?;
        self.step("files", "cat kept.txt", 0, "kept\n").await?;
        // PID 1 and the shell that counts.
        self.step("sweep", "set -- /proc/[0-9]*; echo $#", 0, "2\n").await?;
        let failing = self.snippet("failure", "process.exitCode = 7").await?;
        if failing.0 != 7 {
            return Err(broken("failure", format!("exit code {}, not 7", failing.0)));
        }
        Ok(())
    }

    /// While interpreters are kept, no call reaches PID 1; nor, where the kernel is Linux, can one stop it.
    async fn isolation(&self) -> Result<(), SessionSmokeError> {
        const WHAT: &str = "PID 1 out of reach";
        let (code, text) = self
            .snippet(
                WHAT,
                &format!(
                    "const {{ spawnSync }} = require('child_process');\n\
                     const tried = spawnSync({GUEST_BINARY:?}, ['try-runner']);\n\
                     process.stdout.write(tried.stdout);\n\
                     process.exitCode = tried.status ?? 99;\n\
                     {}",
                    if self.gvisor { "" } else { "process.kill(1, 'SIGSTOP');" }
                ),
            )
            .await?;
        if code == 0 { Ok(()) } else { Err(broken(WHAT, text)) }
    }

    async fn suspend(&self, languages: &[Language]) -> Result<(), SessionSmokeError> {
        const WHAT: &str = "suspend";
        self.room
            .freeze()
            .await
            .map_err(|error| broken(WHAT, error.to_string()))?;
        self.room
            .thaw()
            .await
            .map_err(|error| broken(WHAT, error.to_string()))?;
        for language in languages {
            self.cell(WHAT, *language, "kept + 2", "43\n").await?;
        }
        Ok(())
    }

    async fn cell(
        &self,
        what: &'static str,
        language: Language,
        code: &str,
        expected: &str,
    ) -> Result<(), SessionSmokeError> {
        let plan = Plan::Cell(CellPlan {
            language,
            nonce: nonce().map_err(|refusal| broken(what, refusal.message()))?,
            files: Vec::new(),
            code: code.to_owned(),
            timeout_ms: limit_ms(PER_CALL),
        });
        match self.call(what, &plan).await? {
            Ending::Cell(end)
                if end.outcome == CellOutcome::Ran
                    && (expected.is_empty() || end.stdout.bytes == expected.as_bytes()) =>
            {
                Ok(())
            }
            other => Err(broken(what, format!("{}: {other:?}", language.as_str()))),
        }
    }

    async fn step(&self, what: &'static str, step: &str, code: i32, expected: &str) -> Result<(), SessionSmokeError> {
        let plan = Plan::Project(ProjectPlan {
            steps: vec![step.to_owned()],
            step_timeout_ms: limit_ms(PER_CALL),
            ..ProjectPlan::default()
        });
        match self.call(what, &plan).await? {
            Ending::Report(report)
                if report
                    .steps
                    .first()
                    .is_some_and(|step| step.exit_code == code && step.stdout.bytes == expected.as_bytes()) =>
            {
                Ok(())
            }
            other => Err(broken(what, format!("{other:?}"))),
        }
    }

    /// Its exit code, and what it wrote.
    async fn snippet(&self, what: &'static str, program: &str) -> Result<(i32, String), SessionSmokeError> {
        let plan = Plan::Snippet(SnippetPlan {
            program: program.to_owned(),
            prelude: String::new(),
            timeout_ms: limit_ms(PER_CALL),
        });
        match self.call(what, &plan).await? {
            Ending::Snippet(end) => {
                let text = [end.stdout.bytes.as_slice(), &end.stderr.bytes].concat();
                Ok((end.end.shell_code(), String::from_utf8_lossy(&text).into_owned()))
            }
            other => Err(broken(what, format!("{other:?}"))),
        }
    }

    /// One call with its sweep.
    async fn call(&self, what: &'static str, plan: &Plan) -> Result<Ending, SessionSmokeError> {
        let mut inside = self
            .room
            .enter()
            .await
            .map_err(|refusal| broken(what, refusal.message()))?;
        if matches!(plan, Plan::Project(_)) {
            inside.quiesce().await.map_err(|ended| broken(what, ended.detail))?;
        }
        let talked = inside.talk(plan, PER_CALL, std::future::pending()).await;
        drop(inside);
        self.room.sweep().await;
        match self.room.ended() {
            None => Ok(talked.ending),
            Some(ended) => Err(broken(what, format!("{}: {}", ended.end.as_str(), ended.detail))),
        }
    }
}
