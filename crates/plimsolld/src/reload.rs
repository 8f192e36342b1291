//! SIGHUP: the caller registry is read again, where an operator allows that.
//!
//! A file is read off the threads that serve, one at a time; signals that come meanwhile are one more reading after it, so
//! the last of them always sees the file as it is then.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_service::auth::{Callers, Registry, Reload};
use plimsoll_service::log::{Log, cut};
use plimsoll_service::sessions::Keeper;
use tokio::sync::Notify;

/// How long a file may take to be read before somebody is told. Some file systems wait for ever.
const SLOW: Duration = Duration::from_secs(10);

/// Longest text of one record about a file, in bytes.
const LONGEST: usize = 4096;

/// What the rules that read a registry have against one, in plain sentences; empty where it may be served with. The rules
/// of the start that a new file could break belong in here.
pub(crate) type Objections = Box<dyn Fn(&Registry) -> Vec<String> + Send + Sync>;

/// Puts the callers of a new file in the place of those in force.
pub(crate) struct Reloader {
    reload: Option<Reload>,
    callers: Callers,
    keeper: Option<Keeper>,
    objections: Objections,
    log: Log,
}

impl Reloader {
    /// Without `reload` no file is read again. The sessions of `keeper` are those of the callers.
    pub(crate) fn new(
        reload: Option<Reload>,
        callers: Callers,
        keeper: Option<Keeper>,
        objections: Objections,
        log: Log,
    ) -> Self {
        Self {
            reload,
            callers,
            keeper,
            objections,
            log,
        }
    }

    /// Waits for `hung_up` again and again, for as long as it is polled.
    pub(crate) async fn run(self, hung_up: Arc<Notify>) {
        let this = Arc::new(self);
        loop {
            hung_up.notified().await;
            this.hung_up().await;
        }
    }

    async fn hung_up(self: &Arc<Self>) {
        let Some(reload) = self.reload.clone() else {
            self.log
                .info("SIGHUP ignored: PLIMSOLL_CLIENTS_RELOAD is not on")
                .send();
            return;
        };
        let this = Arc::clone(self);
        let mut read = tokio::task::spawn_blocking(move || reload.next(&*this.objections));
        let next = match tokio::time::timeout(SLOW, &mut read).await {
            Ok(next) => next,
            Err(_) => {
                self.log
                    .error("the clients file is still being read; the callers of before stay until it has been")
                    .send();
                read.await
            }
        };
        // One that panicked is told by the hook, and has changed nothing.
        let Ok(next) = next else { return };
        match next {
            Ok(next) => {
                if let Some(keeper) = &self.keeper {
                    keeper.admit(next.ids());
                }
                let reloaded = next.put_in_force(&self.callers);
                let callers = reloaded.known.len();
                let closed = self.keeper.as_ref().map_or(0, |keeper| keeper.retain(reloaded.known));
                for warning in reloaded.warnings {
                    self.log.warn(&warning).send();
                }
                self.log
                    .info("callers reloaded")
                    .count("callers", callers)
                    .count("revoked", reloaded.revoked.len())
                    .count("sessions_closed", closed)
                    .send();
            }
            Err(problems) => self
                .log
                .error("callers not reloaded; those of before stay")
                .text("error", &cut(&problems.join("; "), LONGEST))
                .send(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::ffi::OsString;
    use std::sync::atomic::{AtomicBool, Ordering};

    use plimsoll_service::auth::Mode;
    use plimsoll_service::log::Format;
    use serde_json::json;

    use super::*;
    use crate::testing::Lines;

    #[tokio::test]
    async fn a_file_that_a_rule_objects_to_is_not_served_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        let write = |id: &str| {
            let entry = json!({"id": id, "token_sha256": "ab".repeat(32)});
            fs_err::write(&path, json!({"clients": [entry]}).to_string()).unwrap();
        };
        write("ci");
        let lookup: BTreeMap<OsString, OsString> = BTreeMap::from([
            ("PLIMSOLL_CLIENTS_FILE".into(), path.clone().into()),
            ("PLIMSOLL_CLIENTS_RELOAD".into(), "1".into()),
        ]);
        let callers = Callers::new(Mode::read(&lookup, true).unwrap().into_auth());
        let strict = Arc::new(AtomicBool::new(true));
        let objections: Objections = Box::new({
            let strict = Arc::clone(&strict);
            move |registry| {
                let named = registry.without_allowance.iter();
                let named = named.filter(|_| strict.load(Ordering::SeqCst));
                named
                    .flat_map(|id| [format!("{id} has no allowance"), "and more".to_owned()])
                    .collect()
            }
        });
        let lines = Lines::default();
        let log = Log::new(Format::Json, lines.clone()).unwrap();
        let reload = Reload::read(&lookup).unwrap();
        let reloader = Arc::new(Reloader::new(reload, callers.clone(), None, objections, log.clone()));
        let told = || lines.records(&log).pop().unwrap();

        write("dev");
        reloader.hung_up().await;
        assert_eq!(callers.ids(), HashSet::from([Arc::from("ci")]));
        assert_eq!(
            (&told()["level"], &told()["error"]),
            (&json!("ERROR"), &json!("dev has no allowance; and more"))
        );
        strict.store(false, Ordering::SeqCst);
        reloader.hung_up().await;
        assert_eq!(callers.ids(), HashSet::from([Arc::from("dev")]));
        assert_eq!((&told()["level"], &told()["callers"]), (&json!("INFO"), &json!(1)));
    }
}
