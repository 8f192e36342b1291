//! Cancelling calls from outside.

use tokio_util::sync::CancellationToken;

/// Cancels every call it was given to.
///
/// A call whose first byte has not left fails with `RequestCanceled`, marked `request`: nothing ran. A call that was
/// already sent is cut off at once and fails with `RequestCanceled` without a mark: it may have run. A call whose whole
/// answer has arrived returns it.
///
/// Clones cancel together. Once cancelled, a token stays so and refuses every later call unsent. Dropping a call's future
/// cuts it off in the same way, without an error to read.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(CancellationToken);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, from any thread; a second time changes nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it was cancelled.
    pub fn is_canceled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes once the token is cancelled.
    pub(crate) async fn canceled(&self) {
        self.0.cancelled().await;
    }
}
