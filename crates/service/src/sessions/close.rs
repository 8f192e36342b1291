//! Closing a session: the turn, the sandbox's end seen, the count that its caller compares with its own.

use plimsoll_core::{ClosedSession, Fault, FaultKind, RunError, SessionEnd, SessionId};
use plimsoll_record::Fingerprint;

use super::open::not_found;
use super::run::Turned;
use super::table::ended;
use super::{Facts, Keeper, Removal};
use crate::corridor::FAR;
use crate::handler::CallContext;

impl Keeper {
    /// Closes a session of this caller and waits until its sandbox is gone. Closing it again within ten minutes gives the
    /// same answer.
    ///
    /// # Errors
    /// A refusal until the close has begun; from then on faults, which leave it to go on.
    pub(crate) async fn close(&self, context: CallContext, id: &SessionId) -> Result<ClosedSession, RunError> {
        let session = Fingerprint::of(id.reveal());
        let facts = self.0.state.lock().table.find(&session, context.principal.key(), true);
        let facts = facts.ok_or_else(not_found)?;
        if let Turned::Taken(mut guard) = self.take_turn(&context, &session).await? {
            let own = guard.open().ok().and_then(|sandbox| sandbox.session.ended());
            let end = own.unwrap_or_else(|| ended(SessionEnd::Closed, "its caller closed it"));
            if let Some(down) = guard.close(end) {
                tokio::spawn(self.clone().remove(down));
            }
        }
        removed(&context, &facts).await?;
        let summary = self.0.state.lock().table.collect(&session).ok_or_else(not_found)?;
        Ok(ClosedSession {
            session: summary.session.as_str().to_owned(),
            calls: summary.calls,
            last_record_sha256: summary.last_sha256,
            ended: summary.ended.end,
        })
    }
}

/// Waits for the sandbox to be gone, within the caller's deadline.
async fn removed(context: &CallContext, facts: &Facts) -> Result<(), Fault> {
    let mut removal = facts.removal.subscribe();
    let deadline = context.deadline.unwrap_or_else(|| context.received.instant() + FAR);
    // A failure from before is not this close's: the removal is tried again and again.
    if *removal.borrow_and_update() == Removal::Gone {
        return Ok(());
    }
    loop {
        tokio::select! {
            biased;
            changed = removal.changed() => {
                if changed.is_err() {
                    return Err(Fault::internal("a session's removal was given up"));
                }
                match &*removal.borrow_and_update() {
                    Removal::Gone => return Ok(()),
                    Removal::Failed(cause) => {
                        return Err(Fault::internal(format!("a session's sandbox is not gone yet: {cause}")));
                    }
                    Removal::Pending => {}
                }
            }
            () = context.cancelled.cancelled() => {
                return Err(Fault::new(FaultKind::Canceled, "the caller went away while the session was closing"));
            }
            () = tokio::time::sleep_until(deadline.into()) => {
                return Err(Fault::new(
                    FaultKind::DeadlineExceeded,
                    "the call's deadline passed while the session was closing; close it again for its count",
                ));
            }
        }
    }
}
