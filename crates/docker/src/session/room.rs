//! The container of a session, and whoever is inside: one at a time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plimsoll_core::{Code, Permit, Reason, Refusal, SessionEnd, SessionEnded};
use plimsoll_guest_link::messages::{Disk, LimitFacts, Plan, Prepare, SweepEnd, SweepPlan};
use tokio::sync::{MappedMutexGuard, Mutex as AsyncMutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::end;
use super::standing::{Running, Standing};
use crate::container::ContainerName;
use crate::engine::{Engine, EngineError, Exit};
use crate::guard::Container;
use crate::later::Later;
use crate::launch::{LaunchError, Launcher, Member, Order, Use};
use crate::orphans::{self, NotRemoved};
use crate::snapshot::Snapshot;
use crate::talk::{Ending, Talked, talk_in_session};

/// How long what a call left may take to be ended and seen gone.
const SWEEP: Duration = Duration::from_secs(20);

/// How long the engine may take to tell what a container is: a millisecond, and on a loaded host seconds.
const INSPECT: Duration = Duration::from_secs(5);

/// How long a container that has ended may take to vanish, before it is taken for one that nobody removed.
const VANISHES: Duration = Duration::from_millis(500);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How long the engine may take to tell of the exit of a container whose stream has ended.
const EXIT_TOLD: Duration = Duration::from_secs(2);

/// A session's container.
#[derive(Debug)]
pub(crate) struct Room {
    engine: Engine,
    name: ContainerName,
    /// What the engine calls it, whatever its name becomes.
    id: String,
    standing: Standing,
    disk_bytes: u64,
    /// Held by whoever is inside; `None` once it is being removed.
    inside: AsyncMutex<Option<Inside>>,
    exit: Option<Later<Exit>>,
    ended: OnceLock<SessionEnded>,
    removal: AsyncMutex<Removal>,
}

/// What is inside.
#[derive(Debug)]
struct Inside {
    member: Member,
    /// Interpreters may live: the last sweep said so, or a cell ran since.
    interpreters: bool,
    /// The host's count of processes taken for want of memory, as far as it was told.
    oom_kills: u64,
}

/// How far a removal is.
#[derive(Debug)]
enum Removal {
    NotAsked,
    UnderWay(JoinHandle<Result<(), NotRemoved>>),
    Failed,
    Gone,
}

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoomError {
    /// No container.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The engine would not.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It is not what was asked for.
    #[error("the container is not what was asked for: {0}")]
    Unfit(String),
}

/// Somebody is inside, and found the container as it was opened.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    room: &'a Room,
    inside: MappedMutexGuard<'a, Inside>,
}

impl Room {
    /// Makes a container whose PID 1 is alone in it and waits for calls. `capacity` is what the session's caller holds, kept
    /// until the container is gone.
    ///
    /// # Errors
    /// [`RoomError`]; what was made is removed.
    pub(crate) async fn open(
        launcher: &Launcher,
        snapshot: &Arc<Snapshot>,
        lives: Duration,
        disk_bytes: u64,
        capacity: Option<Permit>,
    ) -> Result<Self, RoomError> {
        let order = Order {
            of: Use::Project,
            prepare: Prepare::Session,
            lives,
            memory_mib: None,
            capacity,
        };
        let mut member = launcher.launch(snapshot, order).await?;
        let name = member.container.name().clone();
        let id = member.container.reference().to_owned();
        let seen = snapshot.engine.inspect_container(&id).await?;
        let standing = Standing::of(&seen);
        if Running::of(&seen) != Running::Yes || !standing.is_alone() {
            return Err(RoomError::Unfit("it does not run, or has a network".to_owned()));
        }
        let swept = swept(&mut member, After::Call { disk_budget: 0 })
            .await
            .map_err(RoomError::Unfit)?;
        if swept.killed > 0 {
            return Err(RoomError::Unfit(format!("{} processes beside PID 1", swept.killed)));
        }
        Ok(Self {
            engine: snapshot.engine.clone(),
            name,
            id,
            standing,
            disk_bytes,
            exit: member.container.exits(),
            inside: AsyncMutex::new(Some(Inside {
                member,
                interpreters: false,
                oom_kills: 0,
            })),
            ended: OnceLock::new(),
            removal: AsyncMutex::new(Removal::NotAsked),
        })
    }

    /// What the session may write, in bytes; 0 = no bound.
    pub(crate) fn bound_disk(&mut self, bytes: u64) {
        self.disk_bytes = bytes;
    }

    /// Keeps the session's capacity until the container is gone.
    pub(crate) async fn keep(&self, capacity: Permit) {
        if let Some(inside) = &mut *self.inside.lock().await {
            inside.member.container.keep(capacity);
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&self) -> Option<SessionEnded> {
        self.ended.get().cloned()
    }

    fn end(&self, how: SessionEnd, detail: &str) -> SessionEnded {
        self.ended.get_or_init(|| end(how, detail)).clone()
    }

    /// Goes inside for a call, after a look whether the container is as it was opened.
    ///
    /// # Errors
    /// Nothing of the call has run: the session has ended, or the engine could not be asked.
    pub(crate) async fn enter(&self) -> Result<Entered<'_>, Refusal> {
        let Ok(mut inside) = MutexGuard::try_map(self.inside.lock().await, Option::as_mut) else {
            return Err(Refusal::session_ended(end(SessionEnd::Closed, "")));
        };
        let over = inside.member.channel.is_over().await;
        if let Some(ended) = self.ended() {
            return Err(Refusal::session_ended(ended));
        }
        match self.look().await? {
            Ok(()) if over => {
                let ended = self.end(SessionEnd::BoundaryFailed, "the connection to its sandbox was lost");
                Err(Refusal::session_ended(ended))
            }
            Ok(()) => Ok(Entered { room: self, inside }),
            Err(ended) => Err(Refusal::session_ended(ended)),
        }
    }

    /// Whether the container is as it was opened.
    ///
    /// # Errors
    /// The engine could not be asked; the session goes on.
    async fn look(&self) -> Result<Result<(), SessionEnded>, Refusal> {
        let changed = |detail| self.end(SessionEnd::SandboxChanged, detail);
        let engine = self.engine.with_budget(INSPECT);
        let seen = match engine.inspect_container(&self.id).await {
            Ok(seen) => seen,
            Err(error) => {
                return match engine.exists(&self.id).await {
                    Ok(false) => Ok(Err(changed("somebody removed its sandbox"))),
                    Ok(true) | Err(_) => Err(Refusal::new(
                        Code::Internal,
                        Reason::Environment,
                        format!("the session's sandbox could not be looked at; nothing of this call ran: {error}"),
                    )),
                };
            }
        };
        Ok(match Running::of(&seen) {
            Running::Paused => Err(changed("somebody paused its sandbox")),
            Running::No => Err(self.end(SessionEnd::MainProcessEnded, "its main process has ended")),
            Running::Yes => match Standing::of(&seen).changed_since(&self.standing) {
                Some(how) => Err(changed(how)),
                None => Ok(()),
            },
        })
    }

    /// How the session has ended whose PID 1 did not say what it had to.
    async fn lost_touch(&self) -> SessionEnded {
        if let Some(exit) = &self.exit {
            let mut exit = exit.clone();
            // The engine tells of an end a moment after the stream does.
            let _told = timeout(EXIT_TOLD, exit.get()).await;
        }
        let engine = self.engine.with_budget(INSPECT);
        match engine.inspect_container(&self.id).await.map(|seen| Running::of(&seen)) {
            Ok(Running::No) | Err(EngineError::NotFound { .. }) => {
                self.end(SessionEnd::MainProcessEnded, "its main process ended")
            }
            Ok(Running::Paused) => self.end(SessionEnd::SandboxChanged, "somebody paused its sandbox during a call"),
            Ok(Running::Yes) | Err(_) => self.end(
                SessionEnd::BoundaryFailed,
                "its sandbox does not say what became of a call",
            ),
        }
    }

    /// Ends what the last call left. Where that cannot be shown the session has ended.
    pub(crate) async fn sweep(&self) {
        let mut inside = self.inside.lock().await;
        let Some(inside) = &mut *inside else { return };
        if self.ended().is_some() {
            return;
        }
        match swept(
            &mut inside.member,
            After::Call {
                disk_budget: self.disk_bytes,
            },
        )
        .await
        {
            Ok(end) => {
                inside.interpreters = !end.interpreters.is_empty();
                match end.disk {
                    Disk::NotMeasured | Disk::Within(_) => {}
                    Disk::Over(used) => {
                        self.end(SessionEnd::DiskExceeded, &over(used, self.disk_bytes));
                    }
                    Disk::Unmeasurable => {
                        self.end(SessionEnd::DiskExceeded, "what it has written cannot be measured");
                    }
                }
            }
            Err(cause) => {
                let ended = self.lost_touch().await;
                tracing::warn!(%cause, container = %self.name, end = ended.end.as_str(), "a session could not be swept");
            }
        }
    }

    /// Has PID 1 rest, and freezes the container.
    ///
    /// # Errors
    /// It cannot be frozen; the session has ended.
    pub(crate) async fn freeze(&self) -> Result<(), RoomError> {
        let mut inside = self.inside.lock().await;
        if let Some(inside) = &mut *inside
            && let Err(cause) = swept(&mut inside.member, After::Rest).await
        {
            self.lost_touch().await;
            return Err(RoomError::Unfit(cause));
        }
        self.engine.pause(&self.id).await.map_err(|error| {
            self.end(SessionEnd::BoundaryFailed, "its sandbox could not be suspended");
            error.into()
        })
    }

    /// Undoes [`Room::freeze`].
    ///
    /// # Errors
    /// It cannot be thawed; the session has ended.
    pub(crate) async fn thaw(&self) -> Result<(), EngineError> {
        let _inside = self.inside.lock().await;
        self.engine.unpause(&self.id).await.inspect_err(|_| {
            self.end(SessionEnd::BoundaryFailed, "its sandbox could not be resumed");
        })
    }

    /// Ready when the container has ended by itself, or by somebody else's doing.
    pub(crate) async fn lost(&self) -> SessionEnded {
        let told = match &self.exit {
            Some(exit) => exit.clone().get().await.is_some(),
            None => false,
        };
        if !told {
            // Nobody tells: the next call finds out.
            std::future::pending::<()>().await;
        }
        // Who removes a container ends it first.
        let until = Instant::now() + VANISHES;
        while Instant::now() < until {
            if matches!(self.engine.exists(&self.id).await, Ok(false)) {
                return self.end(SessionEnd::SandboxChanged, "somebody removed its sandbox");
            }
            sleep(LOOK_EVERY).await;
        }
        self.end(SessionEnd::MainProcessEnded, "its main process has ended")
    }

    /// Removes the container, and returns when it is seen to be gone. The removal goes on when nobody waits.
    ///
    /// # Errors
    /// It is still there; asked again, this tries again.
    pub(crate) async fn close(&self) -> Result<(), NotRemoved> {
        let mut removal = self.removal.lock().await;
        if matches!(*removal, Removal::NotAsked) {
            let Some(inside) = self.inside.lock().await.take() else {
                *removal = Removal::Gone;
                return Ok(());
            };
            let Member { channel, container, .. } = inside.member;
            drop(channel);
            *removal = Removal::UnderWay(container.remove());
        }
        let outcome = match &mut *removal {
            Removal::NotAsked | Removal::Gone => return Ok(()),
            Removal::UnderWay(going) => going.await.unwrap_or_else(|error| {
                Err(NotRemoved {
                    name: self.name.as_str().to_owned(),
                    last: error.to_string(),
                })
            }),
            Removal::Failed => orphans::force_remove(&self.engine, &self.id).await,
        };
        *removal = if outcome.is_ok() {
            Removal::Gone
        } else {
            Removal::Failed
        };
        outcome
    }
}

impl Entered<'_> {
    /// The container.
    pub(crate) fn container(&self) -> &Container {
        &self.inside.member.container
    }

    /// Whether PID 1 gives a sign of life.
    pub(crate) async fn answers(&mut self) -> bool {
        self.inside.member.channel.answers().await
    }

    /// Has PID 1 do a plan, and stops it when `over` is ready.
    pub(crate) async fn talk(&mut self, plan: &Plan, limit: Duration, over: impl Future<Output = ()>) -> Talked {
        if matches!(plan, Plan::Cell(_) | Plan::Warm(_)) {
            self.inside.interpreters = true;
        }
        talk_in_session(&mut self.inside.member, plan, limit, over).await
    }

    /// Ends the interpreters too, where any may live: a project begins in a sandbox with nothing but PID 1.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn quiesce(&mut self) -> Result<(), SessionEnded> {
        if !self.inside.interpreters {
            return Ok(());
        }
        match swept(&mut self.inside.member, After::Everything).await {
            Ok(_) => {
                self.inside.interpreters = false;
                Ok(())
            }
            Err(cause) => {
                tracing::warn!(%cause, container = %self.room.name, "a session could not be swept before a project");
                Err(self.room.lost_touch().await)
            }
        }
    }

    /// Under gVisor what the limits did is read on the host, whose count is the whole session's.
    pub(crate) async fn seen_from_the_host(&mut self, limits: &mut LimitFacts) {
        let inside = &mut *self.inside;
        if !inside.member.snapshot.runtime.is_gvisor() {
            return;
        }
        if let Some(process) = inside.member.container.process().await {
            let count = process.oom_kills().await;
            limits.oom_kills = count.saturating_sub(inside.oom_kills);
            limits.peak_memory = process.groups().peak_memory();
            inside.oom_kills = count;
        }
    }

    /// How the session has ended whose PID 1 did not say what became of a call.
    pub(crate) async fn lost_touch(&self) -> SessionEnded {
        self.room.lost_touch().await
    }
}

/// More is written than is allowed, in the unit of the setting that allows it.
fn over(used: u64, allowed: u64) -> String {
    const MIB: u64 = 1 << 20;
    format!(
        "{} MiB are written; SANDBOX_SESSION_DISK_MB allows {}",
        used.div_ceil(MIB),
        allowed / MIB
    )
}

/// What a sweep is for.
#[derive(Clone, Copy, Debug)]
enum After {
    /// A call: interpreters stay, and what is written is measured unless the budget is 0.
    Call { disk_budget: u64 },
    /// All calls so far: interpreters go as well.
    Everything,
    /// The last call before the container is frozen.
    Rest,
}

/// Has PID 1 end everything but itself and, if they are kept, the interpreters. An error says, for the log, why nobody knows
/// that nothing lives.
async fn swept(member: &mut Member, after: After) -> Result<SweepEnd, String> {
    let plan = Plan::Sweep(SweepPlan {
        keep_interpreters: !matches!(after, After::Everything),
        disk_budget: match after {
            After::Call { disk_budget } => disk_budget,
            After::Everything | After::Rest => 0,
        },
        rest: matches!(after, After::Rest),
    });
    let talked = talk_in_session(member, &plan, SWEEP, std::future::pending()).await;
    match talked.ending {
        Ending::Swept(end) if end.clean => Ok(*end),
        Ending::Swept(end) => Err(end.detail),
        other => Err(format!("{other:?}")),
    }
}
