//! The connections a run keeps between its calls.

use std::fmt;

use parking_lot::Mutex;

use super::connection::Connection;

/// Connections nobody uses. There are never more than calls were in flight at once.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    idle: Vec<Connection>,
    closed: bool,
}

impl Pool {
    /// The connection used last that is still good; those that are not are closed.
    pub(crate) async fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.0.lock().idle.pop()?;
            if connection.is_ready().await {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next call, when it is fit for one.
    pub(crate) async fn keep(&self, mut connection: Connection) {
        if connection.is_ready().await {
            let mut kept = self.0.lock();
            if !kept.closed {
                kept.idle.push(connection);
            }
        }
    }

    /// Closes all of them; none is kept any more.
    pub(crate) fn close(&self) {
        let idle = {
            let mut kept = self.0.lock();
            kept.closed = true;
            std::mem::take(&mut kept.idle)
        };
        drop(idle);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.0.lock().idle.len())
            .finish_non_exhaustive()
    }
}
