//! Containers that wait: never used, used once, and indistinguishable inside from one made for the call.
//!
//! Each use has its shelf. A claim takes the longest-waiting member, or nothing; a filler per shelf makes up what is
//! missing, slower after each failure. A member that no longer matches what runs would launch under now is let go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::launch::{Launcher, Member, Order, Use};
use crate::snapshot::Snapshot;
use crate::state::EngineState;

/// How long a member may wait: its label says the same.
pub(crate) const MEMBER_LIFE: Duration = Duration::from_secs(30 * 60);

/// How often a filler looks without being called: for members whose time is up or that no longer match.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a filler gives way to the run that has just taken a member, as long as others wait: making a container takes a
/// processor and the engine's attention for longer than a quick run lasts.
const GIVE_WAY: Duration = Duration::from_millis(50);

/// The pause after a first failure to make a member; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The waiting containers of one daemon.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Members wanted of each use; 0 keeps none.
    size: usize,
    snippets: Shelf,
    projects: Shelf,
    stop: CancellationToken,
    fillers: TaskTracker,
}

#[derive(Debug, Default)]
struct Shelf {
    waiting: Mutex<VecDeque<Member>>,
    /// A member was taken.
    taken: Notify,
}

impl Pool {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            snippets: Shelf::default(),
            projects: Shelf::default(),
            stop: CancellationToken::new(),
            fillers: TaskTracker::new(),
        }
    }

    fn shelf(&self, of: Use) -> &Shelf {
        match of {
            Use::Snippet => &self.snippets,
            Use::Project => &self.projects,
        }
    }

    /// The longest-waiting member that is what a container made now would be, and alive.
    pub(crate) async fn claim(&self, of: Use, snapshot: &Snapshot) -> Option<Member> {
        if self.size == 0 {
            return None;
        }
        let shelf = self.shelf(of);
        loop {
            // Taken under the lock: nobody else can have it.
            let mut member = shelf.waiting.lock().pop_front()?;
            shelf.taken.notify_one();
            if fits(&member, of, snapshot) && member.channel.answers().await {
                return Some(member);
            }
        }
    }

    /// Starts filling. Must be called inside a tokio runtime.
    pub(crate) fn start(self: &Arc<Self>, launcher: &Arc<Launcher>, state: &Arc<EngineState>) {
        if self.size == 0 {
            return;
        }
        let (stop, kept) = (self.stop.clone(), Arc::clone(state));
        self.fillers.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = kept.keep_fresh() => {}
            }
        });
        for of in Use::ALL {
            let (pool, launcher, state) = (Arc::clone(self), Arc::clone(launcher), Arc::clone(state));
            let stop = self.stop.clone();
            self.fillers.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = pool.fill(of, &launcher, &state) => {}
                }
            });
        }
    }

    /// Stops filling. What waits goes with the pool.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops filling and lets every member go.
    pub(crate) async fn empty(&self) {
        self.stop();
        self.fillers.close();
        self.fillers.wait().await;
        for of in Use::ALL {
            let waiting = std::mem::take(&mut *self.shelf(of).waiting.lock());
            drop(waiting);
        }
    }

    async fn fill(&self, of: Use, launcher: &Launcher, state: &EngineState) {
        let shelf = self.shelf(of);
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(snapshot) = state.admissible_now() else {
                // What was made of an image whose tag has moved is never handed out. While the engine is not ready nobody claims
                // anything, and what waits is as good as before.
                if state.has_moved() {
                    shelf.let_go(|_| false);
                }
                sleep(LOOK_EVERY).await;
                continue;
            };
            shelf.let_go(|member| fits(member, of, &snapshot));
            if shelf.waiting.lock().len() >= self.size {
                tokio::select! {
                    () = shelf.taken.notified() => {}
                    () = sleep(LOOK_EVERY) => continue,
                }
                if shelf.waiting.lock().len() * 2 >= self.size {
                    sleep(GIVE_WAY).await;
                }
                continue;
            }
            let order = Order {
                of,
                prepare: of.prepare(),
                lives: MEMBER_LIFE,
                memory_mib: None,
                capacity: None,
            };
            match launcher.launch(&snapshot, order).await {
                Ok(member) => {
                    shelf.waiting.lock().push_back(member);
                    pause = FIRST_PAUSE;
                }
                Err(cause) => {
                    tracing::warn!(%cause, of = of.as_str(), "a waiting container could not be made");
                    sleep(pause).await;
                    pause = longer(pause);
                }
            }
        }
    }
}

impl Shelf {
    /// Lets every member go that is not to be kept.
    fn let_go(&self, keep: impl Fn(&Member) -> bool) {
        let gone: Vec<Member> = {
            let mut waiting = self.waiting.lock();
            let (kept, gone) = std::mem::take(&mut *waiting).into_iter().partition(keep);
            *waiting = kept;
            VecDeque::into(gone)
        };
        drop(gone);
    }
}

/// The pause after one more failure.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

/// Whether a member is what a container made under `snapshot` would be, with time left to live.
fn fits(member: &Member, of: Use, snapshot: &Snapshot) -> bool {
    let made = &member.snapshot;
    member.born.elapsed() < MEMBER_LIFE
        && of.image(made) == of.image(snapshot)
        && made.runtime == snapshot.runtime
        && made.guest_uid == snapshot.guest_uid
        && made.limits == snapshot.limits
        && made.platform == snapshot.platform
}

#[cfg(test)]
mod tests;
