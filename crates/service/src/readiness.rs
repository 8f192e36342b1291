//! `/readyz`: whether the provider can serve right now, and the loop that restores a fallen tier.
//!
//! Anyone may poll it, so one Preflight at a time answers everybody and its result stands for two seconds. The
//! Preflight runs in a task of its own: a poller that hangs up must not leave the evidence half renewed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::Isolation;
use plimsoll_sandbox::{ProviderFault, Sandbox};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::log::Log;

/// How long one answer stands.
const CACHE: Duration = Duration::from_secs(2);

/// The cause of a failure is logged at most this often.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// Longest Preflight after start-up.
const PREFLIGHT_BOUND: Duration = Duration::from_secs(30);

/// Readiness of one daemon. Clones share it.
#[derive(Clone)]
pub struct Readiness(Arc<Shared>);

struct Shared {
    sandbox: Arc<dyn Sandbox>,
    log: Log,
    draining: AtomicBool,
    last: Arc<Mutex<Last>>,
}

#[derive(Default)]
struct Last {
    answer: Option<(Instant, bool)>,
    told: Option<Instant>,
}

impl Readiness {
    /// Of this provider, its failures told to this log.
    pub fn new(sandbox: Arc<dyn Sandbox>, log: Log) -> Self {
        Self(Arc::new(Shared {
            sandbox,
            log,
            draining: AtomicBool::new(false),
            last: Arc::default(),
        }))
    }

    /// From now on the answer is no: the daemon finishes what it has and takes nothing new.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// Whether a drain has begun.
    pub fn draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Whether the provider is ready; the cause of a no is in the log only.
    pub async fn ready(&self) -> bool {
        if self.draining() {
            return false;
        }
        let mut last = Arc::clone(&self.0.last).lock_owned().await;
        if let Some((at, answer)) = last.answer
            && at.elapsed() < CACHE
        {
            return answer && !self.draining();
        }
        let shared = Arc::clone(&self.0);
        let fresh = tokio::spawn(async move {
            let outcome = bounded_preflight(&*shared.sandbox).await;
            let now = Instant::now();
            last.answer = Some((now, outcome.is_ok()));
            if let Err(fault) = &outcome
                && last.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY)
            {
                last.told = Some(now);
                let provider = shared.sandbox.evidence().provider;
                shared
                    .log
                    .warn("not ready")
                    .text("provider", provider)
                    .text("error", &fault.to_string())
                    .send();
            }
            outcome.is_ok()
        });
        // A panic inside the provider's Preflight is not an answer of yes.
        fresh.await.unwrap_or(false) && !self.draining()
    }

    /// One turn of the background loop: when the tier is unknown or below the one proven at start-up, try to prove it
    /// again. Nothing else would, because requests above the fallen tier are refused before the provider is asked.
    pub async fn restore(&self, proven: Isolation) {
        let sandbox = &self.0.sandbox;
        let current = sandbox.evidence().isolation;
        let fallen = proven.tier().is_some_and(|tier| !current.meets(Some(tier)));
        if !fallen || self.draining() {
            return;
        }
        if let Err(fault) = bounded_preflight(&**sandbox).await {
            self.0
                .log
                .warn("the tier has fallen and could not be restored")
                .text("provider", sandbox.evidence().provider)
                .text("current", sandbox.evidence().isolation.as_str())
                .text("proven", proven.as_str())
                .text("error", &fault.to_string())
                .send();
        }
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readiness")
            .field("draining", &self.draining())
            .finish_non_exhaustive()
    }
}

async fn bounded_preflight(sandbox: &dyn Sandbox) -> Result<(), ProviderFault> {
    tokio::time::timeout(PREFLIGHT_BOUND, sandbox.preflight())
        .await
        .unwrap_or_else(|_| {
            Err(ProviderFault {
                phase: "preflight",
                cause: format!("no answer within {} s", PREFLIGHT_BOUND.as_secs()),
            })
        })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use plimsoll_core::{Evidence, Outcome, RunError, Tier};
    use plimsoll_sandbox::{AdmittedCall, BoxFuture, RunContext};

    use super::*;
    use crate::log::Format;
    use crate::log::tests::Captured;

    /// A provider whose Preflight takes a second and succeeds or not, and sets the tier.
    #[derive(Default)]
    struct Slow {
        broken: AtomicBool,
        preflights: AtomicU32,
        finished: AtomicU32,
        proven: AtomicBool,
    }

    impl Sandbox for Slow {
        fn evidence(&self) -> Arc<Evidence> {
            let proven = self.proven.load(Ordering::SeqCst);
            let isolation = if proven {
                Isolation::Proven(Tier::Kernel)
            } else {
                Isolation::Unknown
            };
            Arc::new(Evidence {
                provider: "slow",
                isolation,
                ..Evidence::disabled()
            })
        }

        fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async {
                self.preflights.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.finished.fetch_add(1, Ordering::SeqCst);
                let broken = self.broken.load(Ordering::SeqCst);
                self.proven.store(!broken, Ordering::SeqCst);
                let cause = "DOCKER_HOST=tcp://10.0.0.1 does not answer".to_owned();
                if broken {
                    Err(ProviderFault {
                        phase: "preflight",
                        cause,
                    })
                } else {
                    Ok(())
                }
            })
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn time_limit(&self, _: &AdmittedCall) -> Duration {
            Duration::from_secs(5)
        }

        fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
            Box::pin(std::future::pending())
        }
    }

    fn start() -> (Readiness, Arc<Slow>, Log, Captured) {
        let (log, captured) = Captured::log(Format::Json);
        let slow = Arc::new(Slow::default());
        (
            Readiness::new(Arc::clone(&slow) as Arc<dyn Sandbox>, log.clone()),
            slow,
            log,
            captured,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_polls_within_two_seconds_are_one_preflight() {
        let (readiness, slow, ..) = start();
        let polls: Vec<_> = (0..100)
            .map(|_| {
                let readiness = readiness.clone();
                tokio::spawn(async move { readiness.ready().await })
            })
            .collect();
        for poll in polls {
            assert!(poll.await.unwrap());
        }
        assert_eq!(slow.preflights.load(Ordering::SeqCst), 1);
        tokio::time::sleep(CACHE).await;
        assert!(readiness.ready().await);
        assert_eq!(slow.preflights.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poller_that_hangs_up_does_not_stop_the_preflight() {
        let (readiness, slow, ..) = start();
        assert!(
            tokio::time::timeout(Duration::from_millis(10), readiness.ready())
                .await
                .is_err()
        );
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(slow.finished.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_the_log_once_in_thirty_seconds() {
        let (readiness, slow, log, captured) = start();
        slow.broken.store(true, Ordering::SeqCst);
        // One poll in four seconds: seven of them fit into the window, the ninth is past it.
        for (poll, told) in [1, 1, 1, 1, 1, 1, 1, 1, 2].into_iter().enumerate() {
            assert!(!readiness.ready().await);
            let records = captured.records(&log);
            assert_eq!(records.len(), told, "poll {poll}");
            assert!(records[0]["error"].as_str().unwrap().contains("DOCKER_HOST"));
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_ready_during_a_drain() {
        let (readiness, ..) = start();
        assert!(readiness.ready().await);
        readiness.drain();
        assert!(!readiness.ready().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fallen_tier_is_proven_again_and_a_standing_one_left_alone() {
        let (readiness, slow, log, captured) = start();
        let proven = Isolation::Proven(Tier::Kernel);
        slow.broken.store(true, Ordering::SeqCst);
        readiness.restore(proven).await;
        let records = captured.records(&log);
        assert_eq!(
            (&records[0]["current"], &records[0]["proven"]),
            (&"unknown".into(), &"kernel".into())
        );
        slow.broken.store(false, Ordering::SeqCst);
        readiness.restore(proven).await;
        assert_eq!(slow.evidence().isolation, proven);
        readiness.restore(proven).await;
        readiness.restore(Isolation::None).await;
        assert_eq!(slow.preflights.load(Ordering::SeqCst), 2);
        assert_eq!(captured.records(&log).len(), 1);
    }
}
