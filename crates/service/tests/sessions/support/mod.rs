//! A house around the scripted provider, and calls that its callers make.

mod provider;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use plimsoll_core::*;
use plimsoll_grants::Profiles;
use plimsoll_record::SessionAnswer;
use plimsoll_sandbox::Sandbox;
use plimsoll_service::corridor::Corridor;
use plimsoll_service::handler::{CallContext, Handler, SessionError};
use plimsoll_service::limiter::{Limiter, Limits, Memory};
use plimsoll_service::metrics::{Metrics, Readings, SessionReadings};
use plimsoll_service::sessions::{Keeper, Settings};

use crate::common::Logged;
pub(crate) use crate::common::context;
use provider::Scripted;
pub(crate) use provider::{OpenAct, Script};

pub(crate) const SOFTWARE: &str = "oci-manifest:linux/amd64@sha256:aa";

pub(crate) const CAPACITY: (Code, Reason, Option<SessionEnd>) = (Code::ResourceExhausted, Reason::Capacity, None);

/// The refusal of a call whose session has ended.
pub(crate) fn ended_by(end: SessionEnd) -> (Code, Reason, Option<SessionEnd>) {
    (Code::FailedPrecondition, Reason::Request, Some(end))
}

pub(crate) struct House {
    pub(crate) corridor: Corridor,
    pub(crate) keeper: Keeper,
    pub(crate) script: Arc<Script>,
    pub(crate) limiter: Limiter,
    pub(crate) metrics: Arc<Metrics>,
    logged: Logged,
}

pub(crate) const LIMITS: Limits = Limits {
    max_concurrent: 8,
    per_key_concurrent: 0,
    rate_per_min: 0,
    rate_burst: 0,
    memory: None,
};

/// Runs are counted as 256 MiB, and the budget is so many of them.
pub(crate) fn budget(runs: u64) -> Option<Memory> {
    Some(Memory {
        per_run: 256 << 20,
        budget: Some(runs * (256 << 20)),
    })
}

impl House {
    pub(crate) fn new(values: &[(&str, &str)]) -> Self {
        Self::with(values, LIMITS, &["javascript", "python"])
    }

    pub(crate) fn with(values: &[(&str, &str)], limits: Limits, languages: &[&str]) -> Self {
        Self::built(values, limits, support(languages), Profiles::default())
    }

    /// A provider whose sessions do everything: grants on snippets and projects, and a bound on what they write.
    pub(crate) fn of_containers(values: &[(&str, &str)], profiles: Profiles) -> Self {
        let support = SessionSupport {
            grants: GrantSupport {
                javascript: true,
                project: true,
            },
            disk_bound: true,
            ..support(&["javascript", "python"])
        };
        Self::built(values, LIMITS, support, profiles)
    }

    /// A provider whose sessions have no grants, with profiles all the same.
    pub(crate) fn without_grants(profiles: Profiles) -> Self {
        Self::built(&[], LIMITS, support(&["python"]), profiles)
    }

    fn built(values: &[(&str, &str)], limits: Limits, support: SessionSupport, profiles: Profiles) -> Self {
        let mut lookup: std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        lookup
            .entry("SANDBOX_MAX_SESSIONS".into())
            .or_insert_with(|| "8".into());
        let evidence = Evidence {
            provider: "scripted",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Kernel),
            sessions: Some(support),
            ..Evidence::disabled()
        };
        let settings = Settings::read(&lookup).unwrap();
        let script = Arc::new(Script::default());
        let sandbox: Arc<dyn Sandbox> = Arc::new(Scripted(Arc::clone(&script), evidence));
        assert_eq!(settings.check(&*sandbox), Ok(()));
        let limiter = Limiter::new(limits);
        let metrics = Arc::new(Metrics::default());
        let logged = Logged::new();
        let keeper = Keeper::new(
            Arc::clone(&sandbox),
            settings,
            limiter.clone(),
            Arc::clone(&metrics),
            logged.log.clone(),
        );
        let corridor = Corridor::with_sessions(
            sandbox,
            profiles,
            limiter.clone(),
            Arc::clone(&metrics),
            logged.log.clone(),
            Some(keeper.clone()),
        );
        Self {
            corridor,
            keeper,
            script,
            limiter,
            metrics,
            logged,
        }
    }

    pub(crate) async fn open(&self, who: &str) -> Result<OpenedSession, RunError> {
        self.open_with(who, |_| {}).await
    }

    pub(crate) async fn open_with(
        &self,
        who: &str,
        change: impl FnOnce(&mut OpenRequest),
    ) -> Result<OpenedSession, RunError> {
        let mut request = OpenRequest {
            protocol: 4,
            ..OpenRequest::default()
        };
        change(&mut request);
        self.corridor.open_session(context(who), request).await
    }

    /// Two sessions of `alice` where a session idles for 10 s: one is suspended, of the other the suspension hangs.
    pub(crate) async fn suspended_and_about_to_be(&self) -> [SessionId; 2] {
        let suspended = self.open("alice").await.unwrap().session_id;
        self.cell("alice", &suspended, "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        self.script.suspend_waits.store(true, SeqCst);
        let about_to_be = self.open("alice").await.unwrap().session_id;
        self.cell("alice", &about_to_be, "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!((self.script.suspends.load(SeqCst), self.readings().suspended), (2, 1));
        [suspended, about_to_be]
    }

    pub(crate) async fn open_for(&self, who: &str, owner: &str) -> Result<OpenedSession, RunError> {
        self.open_with(who, |request| request.owner = owner.to_owned()).await
    }

    pub(crate) async fn cell(&self, who: &str, id: &SessionId, code: &str) -> Result<SessionAnswer, SessionError> {
        self.corridor.session_run(context(who), cell(id, code)).await
    }

    pub(crate) async fn close(&self, who: &str, id: &SessionId) -> Result<ClosedSession, RunError> {
        self.corridor.close_session(context(who), closing(id)).await
    }

    pub(crate) fn readings(&self) -> SessionReadings {
        self.keeper.readings()
    }

    pub(crate) fn alive(&self) -> u32 {
        self.script.alive.load(SeqCst)
    }

    /// Everything logged so far.
    pub(crate) fn logged(&self) -> String {
        self.logged.text()
    }

    /// The records with this message.
    pub(crate) fn told(&self, message: &str) -> Vec<serde_json::Value> {
        let records = self.logged();
        let records = records.lines().map(|line| serde_json::from_str(line).unwrap());
        records
            .filter(|record: &serde_json::Value| record["msg"] == message)
            .collect()
    }

    /// What the metrics count: runs, and those of them that failed by a fault of ours.
    pub(crate) fn ran_and_failed(&self) -> (u64, u64) {
        let page = self.metrics.render(&Readings {
            in_flight: self.limiter.in_flight(),
            proven: Isolation::None,
            current: Isolation::None,
            log_write_errors: 0,
            failed_handshakes: None,
            sessions: None,
        });
        let read = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap().parse().unwrap()
        };
        (read("plimsoll_runs_total"), read("plimsoll_runs_failed_total"))
    }

    /// Nothing of any session is left.
    pub(crate) async fn nothing_is_left(&self) {
        eventually("everything is gone", || {
            self.alive() == 0 && self.limiter.in_flight() == 0
        })
        .await;
        assert_eq!(self.readings(), SessionReadings::default());
    }
}

fn support(languages: &[&str]) -> SessionSupport {
    SessionSupport {
        environment: PayloadEnvironment {
            identity: "docker-image:sha256:cc".into(),
            software_identity: SOFTWARE.into(),
            languages: languages.iter().map(|&one| one.to_owned()).collect(),
            ..PayloadEnvironment::default()
        },
        snippets: true,
        projects: true,
        ..SessionSupport::default()
    }
}

/// A context whose deadline is so many milliseconds away.
pub(crate) fn within(who: &str, ms: u64) -> CallContext {
    CallContext {
        deadline: Some(Instant::now() + Duration::from_millis(ms)),
        ..context(who)
    }
}

pub(crate) fn cell(id: &SessionId, code: &str) -> SessionRunRequest {
    SessionRunRequest {
        session_id: id.clone(),
        run: RunRequest::new(Payload::Cell(CellRun {
            language: "python".into(),
            code: code.into(),
            files: Vec::new(),
        })),
    }
}

pub(crate) fn closing(id: &SessionId) -> CloseRequest {
    CloseRequest {
        protocol: 4,
        session_id: id.clone(),
    }
}

pub(crate) fn approved(identities: &[&str]) -> Option<SoftwareRuleText> {
    Some(SoftwareRuleText {
        mode: "approved".into(),
        identities: identities.iter().map(|&one| one.to_owned()).collect(),
    })
}

/// The refusal in an error; fails the test where there is none.
#[track_caller]
pub(crate) fn refusal(error: RunError) -> Refusal {
    match error {
        RunError::NotDispatched(refusal) => refusal,
        RunError::MayHaveRun(fault) => panic!("unmarked: {fault}"),
    }
}

/// Code, reason and session end of a refused call.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<T, impl Into<RunErrorOf>>,
) -> (Code, Reason, Option<SessionEnd>) {
    let refusal = refusal(answer.unwrap_err().into().0);
    let end = refusal.session_end().map(|ended| ended.end);
    (refusal.code(), refusal.reason(), end)
}

/// The error of a call or of another session procedure.
pub(crate) struct RunErrorOf(RunError);

impl From<RunError> for RunErrorOf {
    fn from(error: RunError) -> Self {
        Self(error)
    }
}

impl From<SessionError> for RunErrorOf {
    fn from(error: SessionError) -> Self {
        assert_eq!(error.unanswered, None, "a refused call has no record");
        Self(error.error)
    }
}

/// Waits, in the runtime's time, until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}: not within 5 s");
}
