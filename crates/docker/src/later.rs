//! A value that a task of its own is finding.

use tokio::sync::watch;

/// Can be asked for at any time and by several; `None` while, or because, there is none.
#[derive(Clone, Debug)]
pub(crate) struct Later<T>(watch::Receiver<Option<T>>);

impl<T: Clone + Send + Sync + 'static> Later<T> {
    /// Starts finding it.
    pub(crate) fn spawn(finding: impl Future<Output = Option<T>> + Send + 'static) -> Self {
        let (told, later) = watch::channel(None);
        tokio::spawn(async move {
            let found = finding.await;
            // Nobody may be waiting any more.
            told.send_replace(found);
        });
        Self(later)
    }

    /// The value, once the task has ended.
    pub(crate) async fn get(&mut self) -> Option<T> {
        // An error says that the task is over; what it found stays readable.
        while self.0.borrow().is_none() && self.0.changed().await.is_ok() {}
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_found_is_told_to_all_and_as_often_as_asked() {
        let mut later = Later::spawn(async { Some(7) });
        let mut other = later.clone();
        assert_eq!(
            (later.get().await, later.get().await, other.get().await),
            (Some(7), Some(7), Some(7))
        );
        assert_eq!(Later::<u8>::spawn(async { None }).get().await, None);
    }
}
