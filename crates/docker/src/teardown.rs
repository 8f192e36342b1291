//! The end of a container, off the path of its answer.
//!
//! A call's capacity is given back when the container's process is gone, which takes milliseconds; that the engine has
//! cleared it away takes longer and needs no slot, unless so many are waiting that the engine is clearly behind.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::engine::Engine;
use crate::guard::{Mounted, Parts};
use crate::orphans::{self, NotRemoved};

/// How long PID 1 may take to end by itself after its stdin did.
const ENDS_BY_ITSELF: Duration = Duration::from_secs(2);

/// How long the engine may take to clear away a container that has ended, before it is told to.
const CLEARED_BY_ITSELF: Duration = Duration::from_secs(3);

/// The first pause between two looks; the pauses grow to ten times this.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Containers that may wait to be cleared away without their calls' capacity.
const MAX_WITHOUT_CAPACITY: usize = 64;

/// Every container that is going.
#[derive(Debug)]
pub(crate) struct Teardown {
    runtime: Handle,
    tasks: TaskTracker,
    /// Whose process is gone and whom the engine has not cleared away.
    waiting: AtomicUsize,
    /// Names and IDs of everything this process has made and not seen gone.
    names: Mutex<HashSet<String>>,
}

impl Teardown {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new() -> Self {
        Self {
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            waiting: AtomicUsize::new(0),
            names: Mutex::default(),
        }
    }

    /// This process has, or may soon have, a container of this name or ID.
    pub(crate) fn hold(&self, name: &str) {
        self.names.lock().insert(name.to_owned());
    }

    /// Whether this process has a container of this name or ID.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.names.lock().contains(name)
    }

    fn let_go(&self, name: &str) {
        self.names.lock().remove(name);
    }

    /// Ends a container in the background.
    pub(crate) fn begin(self: Arc<Self>, parts: Parts) -> tokio::task::JoinHandle<Result<(), NotRemoved>> {
        let runtime = self.runtime.clone();
        let tasks = self.tasks.clone();
        tasks.spawn_on(
            async move {
                let ended = self.end(parts).await;
                if let Err(error) = &ended {
                    tracing::error!(%error, "a container could not be removed; the next look for orphans tries again");
                }
                ended
            },
            &runtime,
        )
    }

    /// Sees something through that ends in a container, whether or not anybody waits for it.
    pub(crate) fn follow<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn_on(work, &self.runtime)
    }

    /// Waits until every container that is going is gone.
    pub(crate) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    async fn end(&self, parts: Parts) -> Result<(), NotRemoved> {
        let reference = parts.reference().to_owned();
        let Parts {
            engine,
            name,
            id,
            mounted,
            lease,
            seen,
            held,
            force,
        } = parts;
        let gone = match seen {
            Some(mut seen) if !force => timeout(ENDS_BY_ITSELF, seen.ended()).await.unwrap_or(false),
            _ => false,
        };
        let removed = if gone {
            let behind = self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WITHOUT_CAPACITY;
            let held = held.filter(|_| behind);
            let cleared = self.cleared(&engine, &reference).await;
            drop(held);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            cleared
        } else {
            let removed = orphans::force_remove(&engine, &reference).await;
            drop(held);
            removed
        };
        drop(lease);
        if let Mounted::Broker(socket) = mounted {
            socket.close().await;
        }
        self.let_go(name.as_str());
        if let Some(id) = id {
            self.let_go(&id);
        }
        removed
    }

    /// Looks until the engine has cleared the container away, and tells it to where it does not.
    async fn cleared(&self, engine: &Engine, container: &str) -> Result<(), NotRemoved> {
        let look = async {
            let mut pause = LOOK_EVERY;
            loop {
                sleep(pause).await;
                if matches!(engine.exists(container).await, Ok(false)) {
                    return;
                }
                pause = (pause * 2).min(LOOK_EVERY * 10);
            }
        };
        match timeout(CLEARED_BY_ITSELF, look).await {
            Ok(()) => Ok(()),
            Err(_) => orphans::force_remove(engine, container).await,
        }
    }
}
