//! Session sandboxes that wait: never used, their interpreters started, each for one session.
//!
//! ```text
//!          make ─► [ shelf ] ─► claim ─► the session's         one filler makes one member at a time
//!                     └──► let go: too old, changed, of a kind that nobody asks for
//! ```
//!
//! What belongs on the shelf is decided by [`shelf`] and [`demand`], which touch nothing; this room makes and removes.

mod demand;
mod shelf;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_guest_link::messages::{Language, Plan, WarmPlan};
use plimsoll_sandbox::{BoxFuture, ProviderFault, SessionPool};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::BESIDE_THE_SESSION;
use super::room::{Room, RoomError};
use crate::launch::Launcher;
use crate::provider::{Docker, fault};
use crate::snapshot::Snapshot;
use crate::state::{EngineState, StateError};
use crate::talk::Ending;
use demand::Languages;
use shelf::{Shelf, Waiting};

/// How long a member may wait.
const WAITS: Duration = Duration::from_secs(30 * 60);

/// How long the making of one may take, its interpreters included.
const MAKING: Duration = Duration::from_secs(120);

/// The pause after a first failure to make one; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often the filler looks without being called, and how often a removal that failed is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long the filler gives way to the session that has just taken a member, as long as others wait: making one takes a
/// processor and the engine's attention.
const GIVE_WAY: Duration = Duration::from_millis(50);

/// A sandbox that waits.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The sandbox.
    pub(crate) room: Room,
    /// What it was made under.
    pub(crate) snapshot: Arc<Snapshot>,
}

/// Why a member could not be made.
#[derive(Debug, thiserror::Error)]
enum PoolError {
    /// The engine is not ready.
    #[error(transparent)]
    State(#[from] StateError),
    /// No container, or not the one that was asked for.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// Too slow.
    #[error("it was not ready within {} s", MAKING.as_secs())]
    Slow,
}

/// The waiting session sandboxes of one daemon.
#[derive(Debug)]
pub(crate) struct WarmPool {
    /// The longest session a member is good for.
    lifetime: Duration,
    shelf: Mutex<Shelf<Ready>>,
    /// A member was taken, or has gone.
    changed: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What one look of the filler came to.
enum Look {
    Made,
    Failed(PoolError),
    /// There is nothing to make.
    Nothing,
}

impl WarmPool {
    fn new(size: u32, lifetime: Duration, languages: Languages) -> Self {
        Self {
            lifetime,
            shelf: Mutex::new(Shelf::new(size, languages)),
            changed: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// The member that suits a session of these languages and this life best, if one is as good as a container made for it now.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        languages: &[String],
        snapshot: &Snapshot,
        life: Duration,
    ) -> Option<Ready> {
        while !self.stop.is_cancelled() {
            let taken = {
                let mut shelf = self.shelf.lock();
                let kind = shelf.demand().kind(named(languages));
                shelf.take(&kind)?
            };
            self.changed.notify_one();
            if self.usable(&taken, snapshot, Instant::now(), life) && answers(&taken.member.room).await {
                return Some(taken.member);
            }
            self.shelf.lock().unfit();
            self.remove(taken);
        }
        None
    }

    /// A session was opened, by whatever way: what it asked for, others will.
    pub(crate) fn opened(&self, languages: &[String]) {
        let mut shelf = self.shelf.lock();
        let kind = shelf.demand().kind(named(languages));
        shelf.demand().opened(&kind);
    }

    /// Stops filling. What waits goes with the pool.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops filling and lets every member go.
    pub(crate) async fn empty(&self) {
        self.stop();
        self.tasks.close();
        self.tasks.wait().await;
        let going = self.shelf.lock().let_go(|_| false);
        drop(going);
    }

    /// How long members are declared to live: their labels say the same.
    fn lives(&self) -> Duration {
        WAITS + self.lifetime + BESIDE_THE_SESSION
    }

    /// Whether a member is what a container made now under `snapshot` would be, with time left for a session of this life.
    fn usable(&self, one: &Waiting<Ready>, snapshot: &Snapshot, now: Instant, life: Duration) -> bool {
        let waited = now.saturating_duration_since(one.born);
        let made = &one.member.snapshot;
        waited <= WAITS
            && waited + life + BESIDE_THE_SESSION <= self.lives()
            && made.endpoint == snapshot.endpoint
            && made.runtime == snapshot.runtime
            && made.tier() == snapshot.tier()
            && made.platform == snapshot.platform
            && made.project.content_id == snapshot.project.content_id
            && made.project.manifest == snapshot.project.manifest
    }

    /// Starts filling.
    fn fill(self: &Arc<Self>, launcher: &Arc<Launcher>, state: &Arc<EngineState>) {
        let (pool, launcher, state) = (Arc::clone(self), Arc::clone(launcher), Arc::clone(state));
        self.tasks.spawn(async move {
            tokio::select! {
                () = pool.stop.cancelled() => {}
                () = pool.keep_full(&launcher, &state) => {}
            }
        });
    }

    async fn keep_full(self: &Arc<Self>, launcher: &Launcher, state: &EngineState) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.look(launcher, state).await {
                Look::Made => pause = FIRST_PAUSE,
                Look::Failed(cause) => {
                    tracing::warn!(%cause, "a session sandbox could not be made ready");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Look::Nothing => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = sleep(LOOK_EVERY) => continue,
                    }
                    if self.shelf.lock().len() > 0 {
                        sleep(GIVE_WAY).await;
                    }
                }
            }
        }
    }

    async fn look(self: &Arc<Self>, launcher: &Launcher, state: &EngineState) -> Look {
        let snapshot = match state.admissible().await {
            Ok(snapshot) => snapshot,
            Err(StateError::Moved { .. }) => {
                // The start-up test has proven another image: nothing is made before it runs again.
                self.let_go(|_| false);
                return Look::Nothing;
            }
            Err(cause) => {
                let short = self.shelf.lock().missing().is_some();
                return if short {
                    Look::Failed(cause.into())
                } else {
                    Look::Nothing
                };
            }
        };
        let now = Instant::now();
        self.let_go(|one| self.usable(one, &snapshot, now, self.lifetime));
        let missing = self.shelf.lock().missing();
        if let Some(warm) = missing {
            return match self.make(launcher, &snapshot, warm).await {
                Ok(made) => {
                    self.shelf.lock().put(made);
                    Look::Made
                }
                Err(cause) => Look::Failed(cause),
            };
        }
        let one_too_many = self.shelf.lock().let_one_go(now);
        if let Some(going) = one_too_many {
            self.remove(going);
        }
        Look::Nothing
    }

    async fn make(
        &self,
        launcher: &Launcher,
        snapshot: &Arc<Snapshot>,
        warm: Languages,
    ) -> Result<Waiting<Ready>, PoolError> {
        let born = Instant::now();
        let lives = self.lives();
        let making = async {
            let room = Room::open(launcher, snapshot, lives, 0, None).await?;
            start_interpreters(&room, &warm).await?;
            Ok(room)
        };
        match timeout(MAKING, making).await {
            Ok(Ok(room)) => Ok(Waiting {
                member: Ready {
                    room,
                    snapshot: Arc::clone(snapshot),
                },
                warm,
                born,
            }),
            Ok(Err(cause)) => Err(PoolError::Room(cause)),
            Err(_) => Err(PoolError::Slow),
        }
    }

    fn let_go(self: &Arc<Self>, keep: impl Fn(&Waiting<Ready>) -> bool) {
        let going = self.shelf.lock().let_go(keep);
        for one in going {
            self.remove(one);
        }
    }

    /// Removes a member that was let go, and makes room for another when it is gone.
    fn remove(self: &Arc<Self>, going: Waiting<Ready>) {
        let pool = Arc::clone(self);
        self.tasks.spawn(async move {
            let gone = async {
                while let Err(cause) = going.member.room.close().await {
                    tracing::warn!(%cause, "a session sandbox that nobody uses could not be removed");
                    sleep(LOOK_EVERY).await;
                }
            };
            tokio::select! {
                () = pool.stop.cancelled() => {}
                () = gone => {}
            }
            pool.shelf.lock().gone();
            pool.changed.notify_one();
        });
    }
}

impl SessionPool for Docker {
    fn start(&self, size: u32, lifetime: Duration) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async move {
            let fault = fault("session pool");
            let shared = self.shared().await.map_err(|error| fault(&error))?;
            let snapshot = self.state().admissible().await.map_err(|error| fault(&error))?;
            let languages = named(&self.state().languages()).collect();
            let pool = Arc::new(WarmPool::new(size, lifetime, languages));
            let first = pool.shelf.lock().missing();
            if let Some(warm) = first {
                let made = pool.make(&shared.launcher, &snapshot, warm).await;
                pool.shelf.lock().put(made.map_err(|error| fault(&error))?);
            }
            if shared.sessions.set(Arc::clone(&pool)).is_err() {
                return Err(fault(&"it was started before"));
            }
            pool.fill(&shared.launcher, self.state());
            Ok(())
        })
    }
}

fn named(languages: &[String]) -> impl Iterator<Item = Language> {
    languages.iter().filter_map(|language| Language::named(language))
}

/// Has PID 1 start all of these.
async fn start_interpreters(room: &Room, languages: &Languages) -> Result<(), RoomError> {
    if languages.is_empty() {
        return Ok(());
    }
    let unfit = |cause: String| RoomError::Unfit(cause);
    let mut inside = room
        .enter()
        .await
        .map_err(|refusal| unfit(refusal.message().to_owned()))?;
    let plan = Plan::Warm(WarmPlan {
        languages: languages.iter().copied().collect(),
    });
    match inside.talk(&plan, MAKING, std::future::pending()).await.ending {
        Ending::Warm(live) => match languages.iter().find(|language| !live.contains(language)) {
            None => Ok(()),
            Some(language) => Err(unfit(format!("its {} interpreter does not start", language.as_str()))),
        },
        Ending::Fault(text) => Err(unfit(text)),
        other => Err(unfit(format!("its interpreters do not start: {other:?}"))),
    }
}

/// Whether the container is as it was made and its PID 1 there.
async fn answers(room: &Room) -> bool {
    match room.enter().await {
        Ok(mut inside) => inside.answers().await,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
