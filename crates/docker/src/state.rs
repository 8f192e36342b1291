//! Whether runs may start now, and under which state of the engine.
//!
//! One probe at a time, its result kept for five seconds. The endpoint is pinned by the first success and never changes
//! again; a failed probe makes the provider not ready and takes nothing else away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::engine::Engine;
use crate::preflight::{self, Pinned, PreflightError};
use crate::settings::DockerSettings;
use crate::snapshot::{FRESH_FOR, Snapshot};

/// How long one probe may take, whoever asked for it.
const PROBE_BUDGET: Duration = Duration::from_secs(10);

/// How often a state is renewed that is kept fresh: a probe takes tens of milliseconds, on a loaded host seconds.
const PROBE_EVERY: Duration = FRESH_FOR.saturating_sub(Duration::from_secs(2));

/// How long a caller waits for somebody else's probe.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(2);

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// No run may start now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The probe found something unfit.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The probe took too long.
    #[error("the engine was not probed within {} s", PROBE_BUDGET.as_secs())]
    Slow,
    /// Somebody else's probe has not come to an end.
    #[error("a probe of the engine is already in progress and took longer than {} s", WAIT_FOR_OTHERS.as_secs())]
    InProgress,
    /// The probe came to nothing: the program is ending.
    #[error("the probe of the engine was abandoned")]
    Abandoned,
    /// An image is no longer the one the smoke test has proven. The tier does not depend on this.
    #[error(
        "image {reference} is now {now}, and the start-up test has proven {proven}; restart the daemon to prove the new one"
    )]
    Moved {
        /// As configured.
        reference: String,
        /// Its content now.
        now: String,
        /// The content that was proven.
        proven: String,
    },
}

/// The readiness of one provider.
#[derive(Debug)]
pub struct EngineState {
    settings: Arc<DockerSettings>,
    shared: Arc<SharedState>,
}

#[derive(Debug, Default)]
struct SharedState {
    /// Held for as long as a probe runs.
    probing: Arc<AsyncMutex<()>>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// What the first success settled.
    pinned: Option<Pinned>,
    /// The last successful probe, until one fails.
    current: Option<Arc<Snapshot>>,
    /// The engine as the last success found it; outlives a failure.
    engine: Option<Engine>,
    /// Probes that came to an end, and how the last one ended.
    ended: u64,
    proven: Option<Proven>,
}

/// What the smoke test has shown.
#[derive(Clone, Debug)]
struct Proven {
    /// Content by reference.
    images: BTreeMap<String, String>,
    /// Interpreters of projects.
    languages: Vec<String>,
}

impl EngineState {
    /// Nothing is known yet.
    pub fn new(settings: Arc<DockerSettings>) -> Self {
        Self {
            settings,
            shared: Arc::default(),
        }
    }

    /// The state to launch under: the last one while it is younger than five seconds, else that of a new probe. The
    /// probe goes on when the caller leaves.
    ///
    /// # Errors
    /// Not ready, or an image that is no longer the proven one.
    pub async fn admissible(&self) -> Result<Arc<Snapshot>, StateError> {
        let probing = match self.fresh() {
            Some(snapshot) => return self.judged(snapshot),
            None => self.turn().await?,
        };
        match probing {
            Turn::Published(snapshot) => self.judged(snapshot),
            Turn::Mine(guard) => {
                // Another probe may have succeeded between the look and the turn.
                if let Some(snapshot) = self.fresh() {
                    return self.judged(snapshot);
                }
                let snapshot = self.probe(guard).await?;
                self.judged(snapshot)
            }
        }
    }

    /// Probes again and again, each time before the last state would be too old to launch under: no run waits for a probe, and
    /// an image tag that moves is noticed although no run comes. Never returns.
    pub async fn keep_fresh(&self) {
        loop {
            sleep(PROBE_EVERY).await;
            if let Ok(turn) = Arc::clone(&self.shared.probing).try_lock_owned() {
                // What it found is in the state; the next run is told of a failure, and readiness tells it meanwhile.
                let _told_by_the_state = self.probe(turn).await;
            }
        }
    }

    async fn probe(&self, turn: OwnedMutexGuard<()>) -> Result<Arc<Snapshot>, StateError> {
        let probe = tokio::spawn(probe(Arc::clone(&self.settings), Arc::clone(&self.shared), turn));
        probe.await.unwrap_or(Err(StateError::Abandoned))
    }

    /// The last state, however old, while the provider is ready and its images are the proven ones. Asks nobody.
    pub fn admissible_now(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.current()?;
        self.judged(snapshot).ok()
    }

    /// Whether the last probe found an image that is no longer the proven one.
    pub fn has_moved(&self) -> bool {
        self.current().is_some_and(|snapshot| self.judged(snapshot).is_err())
    }

    /// The last successful probe, unless one failed since: what the tier rests on, also when an image has moved.
    pub fn current(&self) -> Option<Arc<Snapshot>> {
        self.shared.now.lock().current.clone()
    }

    /// The engine, once a probe has succeeded; also while the provider is not ready.
    pub fn engine(&self) -> Option<Engine> {
        self.shared.now.lock().engine.clone()
    }

    /// Records that the smoke test has passed on the images of this state: from now on nothing else runs.
    pub fn proven(&self, snapshot: &Snapshot, languages: Vec<String>) {
        let images = [&snapshot.javascript, &snapshot.project];
        let images = images.map(|image| (image.reference.clone(), image.content_id.clone()));
        self.shared.now.lock().proven = Some(Proven {
            images: BTreeMap::from(images),
            languages,
        });
    }

    /// The interpreters of projects that the smoke test has shown; none before it.
    pub fn languages(&self) -> Vec<String> {
        let now = self.shared.now.lock();
        now.proven
            .as_ref()
            .map_or_else(Vec::new, |proven| proven.languages.clone())
    }

    fn fresh(&self) -> Option<Arc<Snapshot>> {
        let now = Instant::now();
        self.current().filter(|snapshot| !snapshot.is_stale(now))
    }

    /// The turn to probe, or what another's probe has published meanwhile.
    async fn turn(&self) -> Result<Turn, StateError> {
        let ended_before = self.shared.now.lock().ended;
        let look = async {
            loop {
                if let Ok(guard) = Arc::clone(&self.shared.probing).try_lock_owned() {
                    return Turn::Mine(guard);
                }
                {
                    let now = self.shared.now.lock();
                    if now.ended != ended_before
                        && let Some(snapshot) = &now.current
                    {
                        return Turn::Published(Arc::clone(snapshot));
                    }
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(WAIT_FOR_OTHERS, look).await.map_err(|_| StateError::InProgress)
    }

    fn judged(&self, snapshot: Arc<Snapshot>) -> Result<Arc<Snapshot>, StateError> {
        let now = self.shared.now.lock();
        if let Some(proven) = &now.proven {
            for image in [&snapshot.javascript, &snapshot.project] {
                let known = proven.images.get(&image.reference);
                if let Some(known) = known.filter(|known| **known != image.content_id) {
                    return Err(StateError::Moved {
                        reference: image.reference.clone(),
                        now: image.content_id.clone(),
                        proven: known.clone(),
                    });
                }
            }
        }
        drop(now);
        Ok(snapshot)
    }
}

enum Turn {
    Mine(OwnedMutexGuard<()>),
    Published(Arc<Snapshot>),
}

async fn probe(
    settings: Arc<DockerSettings>,
    shared: Arc<SharedState>,
    turn: OwnedMutexGuard<()>,
) -> Result<Arc<Snapshot>, StateError> {
    let pinned = shared.now.lock().pinned.clone();
    let probed = timeout(PROBE_BUDGET, preflight::preflight(&settings, pinned.as_ref())).await;
    let result = match probed {
        Ok(Ok(snapshot)) => Ok(Arc::new(snapshot)),
        Ok(Err(error)) => Err(StateError::Preflight(error)),
        Err(_) => Err(StateError::Slow),
    };
    let mut now = shared.now.lock();
    now.ended += 1;
    match &result {
        Ok(snapshot) => {
            now.pinned.get_or_insert_with(|| Pinned {
                endpoint: snapshot.endpoint.clone(),
                cores: Arc::clone(&snapshot.cores),
            });
            now.engine = Some(snapshot.engine.clone());
            now.current = Some(Arc::clone(snapshot));
        }
        Err(_) => now.current = None,
    }
    drop(now);
    drop(turn);
    result
}

#[cfg(test)]
mod tests;
