//! What goes on although nobody waits for it: opens that were given up, and sandboxes of sessions that have ended.

use std::sync::Arc;

use tokio::sync::watch;

/// How much of it there is, so that [`crate::Sandbox::drain`] can wait until there is none. Clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::embed) struct Unattended(Arc<watch::Sender<usize>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct One(Unattended);

impl Unattended {
    /// Counts one more.
    pub(super) fn one(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.clone())
    }

    /// Waits until there is none.
    pub(in crate::embed) async fn none(&self) {
        // It fails where nobody counts any more, and this is somebody.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
