//! The start-up order and what happens between the first request and the last line.

use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::env::Environment;
use plimsoll_core::vars::SettingError;
use plimsoll_core::{Isolation, Tier};
use plimsoll_sandbox::{ProviderFault, Sandbox, ensure_ready};
use plimsoll_service::auth::Mode;
use plimsoll_service::log::{Events, Log, cut};
use plimsoll_service::sessions::Settings;
use plimsoll_service::settings::{ADDR, METRICS_ADDR, NOTIFY_SOCKET, log_format};

use crate::config::{Config, Problem};
use crate::harden::{self, HardenError};
use crate::hardened::{self, Report};
use crate::listen;
use crate::notify::Notify;
use crate::serve::{Ended, Listeners, Service, drain_provider};
use crate::signals::Signals;

/// How long the provider may take to remove what it keeps ready when the daemon stops before it has served.
const EARLY_DRAIN: Duration = Duration::from_secs(30);

/// How long the last lines may take to leave when nobody reads them.
pub(crate) const FLUSH_BOUND: Duration = Duration::from_secs(5);

/// How long the first sandbox of the session pool may take.
const SESSION_POOL: Duration = Duration::from_secs(180);

/// How long the proof of sessions may take.
const SESSION_PROOF: Duration = Duration::from_secs(120);

/// Why the daemon does not serve.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Harden(#[from] HardenError),
    #[error(transparent)]
    Configuration(#[from] Problem),
    #[error("{0}")]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Hardened(#[from] Report),
    #[error("the provider is not ready: {0}")]
    NotReady(#[from] ProviderFault),
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[from] io::Error),
}

/// Why the daemon does not serve, after the log has been told.
#[derive(Debug, PartialEq, Eq)]
struct Told;

/// Tells the log why the daemon does not serve.
fn told(log: &Log, errors: impl IntoIterator<Item = impl Into<StartError>>) -> Told {
    for error in errors {
        let error: StartError = error.into();
        log.error("the daemon does not start")
            .text("error", &error.to_string())
            .send();
    }
    Told
}

/// Starts, serves and stops; every failure is told in the log, or in the name of `program` where there is none.
pub(crate) fn serve(program: &str, environment: impl FnOnce() -> Environment) -> ExitCode {
    let hardened = harden::harden();
    let environment = environment();
    let log = match Log::new(log_format(&environment), io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            crate::complain(&format!("{program}: the log writer cannot be started: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    report_panics(&log);
    report_events(&log);
    let ended = hardened
        .map_err(|error| told(&log, [error]))
        .and_then(|()| start(environment, &log));
    let code = match ended {
        Ok(Ended::BySignal) => ExitCode::SUCCESS,
        Ok(Ended::ByListener) | Err(Told) => ExitCode::FAILURE,
    };
    log.flush(FLUSH_BOUND);
    code
}

fn start(environment: Environment, log: &Log) -> Result<Ended, Told> {
    let config = Config::read(&environment).map_err(|problems| told(log, problems))?;
    let telling = config.settings.log_refusals.then(|| log.clone().telling_refusals());
    let log = telling.as_ref().unwrap_or(log);
    for warning in config.warnings() {
        log.warn(&warning).send();
    }
    let notify = Notify::new(NOTIFY_SOCKET.text(&environment).map_err(|error| told(log, [error]))?);
    // Wipes what was read; the kernel's own copy is unreadable since the process was hardened.
    drop(environment);
    let listeners = bind(&config).map_err(|errors| told(log, errors))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Connections and calls share these threads. Guests that compute give their thread back every millisecond; the
        // listeners are looked at each time they do, and not, as by default, every 61st time. Without this one caller makes
        // everybody else's answers wait.
        .event_interval(1)
        .build()
        .map_err(|error| told(log, [error]))?;
    let sandbox = Arc::clone(&config.sandbox);
    let served = prove_and_serve(config, listeners, notify, log);
    let ended = runtime.block_on(or_drained(&*sandbox, log, served));
    // What is still running was given its time in the drain.
    runtime.shutdown_background();
    ended
}

fn bind(config: &Config) -> Result<(TcpListener, Option<TcpListener>), Vec<SettingError>> {
    let rpc = listen::bind(&ADDR, &config.settings.addr);
    let metrics = config
        .settings
        .metrics_addr
        .as_ref()
        .map(|addr| listen::bind(&METRICS_ADDR, addr))
        .transpose();
    match (rpc, metrics) {
        (Ok(rpc), Ok(metrics)) => Ok((rpc, metrics)),
        (rpc, metrics) => Err(rpc.err().into_iter().chain(metrics.err()).collect()),
    }
}

/// Whatever keeps the daemon from serving, what the provider has made ready by then does not outlive it. The cause is told
/// first: the drain may take its time.
async fn or_drained(
    sandbox: &dyn Sandbox,
    log: &Log,
    served: impl Future<Output = Result<Ended, StartError>>,
) -> Result<Ended, Told> {
    match served.await {
        Ok(ended) => Ok(ended),
        Err(error) => {
            let told = told(log, [error]);
            drain_provider(sandbox, EARLY_DRAIN, log).await;
            Err(told)
        }
    }
}

/// Every exit without an error has drained the provider; after an error that is the caller's.
async fn prove_and_serve(
    config: Config,
    (rpc, metrics): (TcpListener, Option<TcpListener>),
    notify: Notify,
    log: &Log,
) -> Result<Ended, StartError> {
    let signals = Signals::install()?;
    ensure_ready(&*config.sandbox).await?;
    let evidence = config.sandbox.evidence();
    let proven = evidence.isolation;
    config.minimum.met_by(evidence.provider, proven)?;
    if config.sessions.on() {
        prove_sessions(&*config.sandbox, &config.sessions).await?;
    }
    if let Some(facts) = &config.hardened {
        hardened::judge(facts, Some(proven))?;
        log.info("hardened mode: every rule holds").send();
    }
    let listeners = Listeners {
        rpc,
        metrics,
        tls: config.tls.clone(),
        max_connections: harden::max_connections(),
    };
    say_listening(&config, &listeners, proven, log)?;
    let service = Service::new(config, proven, log);
    if let Err(error) = notify.ready() {
        log.warn("the service manager could not be told")
            .text("error", &error.to_string())
            .send();
    }
    Ok(service.run(listeners, signals, &notify).await?)
}

/// Every promise about sessions, kept once with throwaway ones before the first caller relies on it; with a pool, one of
/// its members is among them.
async fn prove_sessions(sandbox: &dyn Sandbox, settings: &Settings) -> Result<(), ProviderFault> {
    let Some(sessions) = sandbox.sessions() else {
        return Err(ProviderFault {
            phase: "session smoke test",
            cause: "the provider keeps no sessions".to_owned(),
        });
    };
    if let Some(pool) = sessions.pool().filter(|_| settings.pool > 0) {
        let started = pool.start(settings.pool, settings.lifetime);
        within("session pool", SESSION_POOL, started).await?;
    }
    within("session smoke test", SESSION_PROOF, sessions.smoke_test()).await
}

async fn within(
    phase: &'static str,
    bound: Duration,
    proof: impl Future<Output = Result<(), ProviderFault>>,
) -> Result<(), ProviderFault> {
    tokio::time::timeout(bound, proof).await.unwrap_or_else(|_| {
        Err(ProviderFault {
            phase,
            cause: format!("not done within {} s", bound.as_secs()),
        })
    })
}

/// The start-up line. Its types are an interface: numbers are numbers, `auth` and `tls` truth values.
fn say_listening(config: &Config, listeners: &Listeners, proven: Isolation, log: &Log) -> io::Result<()> {
    let metrics_addr = match &listeners.metrics {
        Some(listener) => listener.local_addr()?.to_string(),
        None => "off".to_owned(),
    };
    if let Mode::Registry(registry) = &config.auth {
        log.info("callers loaded").count("callers", registry.callers).send();
    }
    if proven.tier() == Some(Tier::Container) {
        log.warn(
            "isolation is container: guest code shares this host's kernel, which is no boundary against hostile code",
        )
        .send();
    }
    log.info("listening")
        .text("addr", &listeners.rpc.local_addr()?.to_string())
        .text("provider", config.sandbox.evidence().provider)
        .text("isolation", proven.as_str())
        .bool("auth", !matches!(config.auth, Mode::Open(_)))
        .uint("max_concurrent", config.limits.max_concurrent)
        .uint("per_key_concurrent", config.limits.per_key_concurrent)
        .uint("rate_per_min", config.limits.rate_per_min)
        .uint("rate_burst", config.limits.rate_burst)
        .uint("mem_mb", config.resources.memory_mb)
        .float("cpus", config.resources.cpus)
        .uint("pids", config.resources.pids)
        .uint("disk_mb", config.resources.disk_mb)
        .bool("tls", listeners.tls.is_some())
        .text("metrics_addr", &metrics_addr)
        .text("guard_addr", "none")
        .count("max_connections", listeners.max_connections.unwrap_or(0))
        .send();
    Ok(())
}

/// What providers warn of becomes records too. A process serves once, so nobody else has set a subscriber.
fn report_events(log: &Log) {
    if tracing::subscriber::set_global_default(Events::to(log.clone())).is_err() {
        log.warn("warnings of providers go elsewhere: this process has a tracing subscriber already")
            .send();
    }
}

/// Panics become records of the stream instead of loose text in it. Where a call panicked is told, and the words of
/// the panic, cut; the call itself is contained and answered elsewhere.
fn report_panics(log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload_as_str().unwrap_or("no words");
        log.error("panic")
            .text("at", &place)
            .text("error", &cut(words, 4096))
            .send();
    }));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::sync::Mutex;

    use plimsoll_core::{AdmittedOpen, Evidence, Outcome, RunError};
    use plimsoll_sandbox::{AdmittedCall, BoxFuture, OpenContext, RunContext, Session, SessionPool, Sessions};
    use plimsoll_service::log::Format;
    use tokio::time::Instant;

    use super::*;
    use crate::testing::Lines;

    /// A provider that tells what it was asked to prove, and hangs where it is told to.
    #[derive(Default)]
    struct Asked {
        of: Mutex<Vec<String>>,
        hangs_at: &'static str,
        fails_at: &'static str,
    }

    impl Asked {
        fn answer(&self, what: String) -> BoxFuture<'_, Result<(), ProviderFault>> {
            let hangs = !self.hangs_at.is_empty() && what.starts_with(self.hangs_at);
            let fault = (what == self.fails_at).then(|| ProviderFault {
                phase: self.fails_at,
                cause: "scripted".to_owned(),
            });
            self.of.lock().unwrap().push(what);
            Box::pin(async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                fault.map_or(Ok(()), Err)
            })
        }
    }

    impl Sandbox for Asked {
        fn evidence(&self) -> Arc<Evidence> {
            Arc::new(Evidence::disabled())
        }

        fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            self.answer("preflight".to_owned())
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            self.answer("smoke test of runs".to_owned())
        }

        fn time_limit(&self, _: &AdmittedCall) -> Duration {
            Duration::ZERO
        }

        fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
            Box::pin(std::future::pending())
        }

        fn sessions(&self) -> Option<&dyn Sessions> {
            Some(self)
        }

        fn drain(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            self.answer("drain".to_owned())
        }
    }

    impl Sessions for Asked {
        fn open<'a>(
            &'a self,
            _: &'a AdmittedOpen,
            _: OpenContext,
        ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
            Box::pin(std::future::pending())
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            self.answer("smoke test".to_owned())
        }

        fn pool(&self) -> Option<&dyn SessionPool> {
            Some(self)
        }
    }

    impl SessionPool for Asked {
        fn start(&self, size: u32, lifetime: Duration) -> BoxFuture<'_, Result<(), ProviderFault>> {
            self.answer(format!("pool of {size} for {} s", lifetime.as_secs()))
        }
    }

    fn settings(pool: &str) -> Settings {
        let values = [
            ("SANDBOX_MAX_SESSIONS", "4"),
            ("SANDBOX_SESSION_POOL", pool),
            ("SANDBOX_SESSION_LIFETIME", "2h"),
        ];
        let lookup: BTreeMap<OsString, OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Settings::read(&lookup).unwrap()
    }

    #[tokio::test]
    async fn the_session_pool_has_its_first_member_before_sessions_are_proven() {
        for (pool, asked) in [
            ("0", &["smoke test"][..]),
            ("3", &["pool of 3 for 7200 s", "smoke test"]),
        ] {
            let sandbox = Asked::default();
            assert_eq!(prove_sessions(&sandbox, &settings(pool)).await, Ok(()));
            assert_eq!(*sandbox.of.lock().unwrap(), asked);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_of_sessions_that_hangs_is_given_up() {
        for (hangs_at, phase, seconds) in [("pool", "session pool", 180), ("smoke", "session smoke test", 120)] {
            let sandbox = Asked {
                hangs_at,
                ..Asked::default()
            };
            let began = Instant::now();
            let fault = prove_sessions(&sandbox, &settings("3")).await.unwrap_err();
            assert_eq!((fault.phase, began.elapsed().as_secs()), (phase, seconds));
        }
    }

    #[tokio::test]
    async fn sessions_that_are_on_and_not_kept_are_a_failed_proof() {
        let fault = prove_sessions(&plimsoll_sandbox::Disabled, &settings("0"))
            .await
            .unwrap_err();
        assert_eq!(fault.phase, "session smoke test");
    }

    /// The message and the error of each record so far.
    fn texts(lines: &Lines, log: &Log) -> Vec<(String, String)> {
        let field = |record: &serde_json::Value, name: &str| record[name].as_str().unwrap().to_owned();
        let records = lines.records(log);
        records
            .iter()
            .map(|record| (field(record, "msg"), field(record, "error")))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_fails_is_told_and_then_drained_for_30_seconds_at_most() {
        let left = "the provider left something behind; the next start finds it";
        for (hangs_at, fails_at, seconds, drained) in [
            ("", "", 0, None),
            ("", "drain", 0, Some("drain: scripted")),
            ("drain", "", 30, Some("the drain's time is up")),
        ] {
            let sandbox = Asked {
                hangs_at,
                fails_at,
                ..Asked::default()
            };
            let lines = Lines::default();
            let log = Log::new(Format::Json, lines.clone()).unwrap();
            let began = Instant::now();
            let fails = async {
                ensure_ready(&sandbox).await?;
                Err(io::Error::other("no more descriptors").into())
            };
            assert_eq!(or_drained(&sandbox, &log, fails).await, Err(Told));
            assert_eq!(began.elapsed().as_secs(), seconds);
            assert_eq!(
                *sandbox.of.lock().unwrap(),
                ["preflight", "smoke test of runs", "drain"]
            );
            let mut expected = vec![(
                "the daemon does not start",
                "the runtime cannot be started: no more descriptors",
            )];
            expected.extend(drained.map(|cause| (left, cause)));
            let told = texts(&lines, &log);
            let told: Vec<_> = told.iter().map(|(message, error)| (&**message, &**error)).collect();
            assert_eq!(told, expected);
        }
    }

    #[tokio::test]
    async fn a_provider_that_is_not_ready_is_drained_and_one_that_has_served_is_not_drained_twice() {
        let log = Log::new(Format::Json, io::sink()).unwrap();
        let not_ready = Asked {
            fails_at: "smoke test of runs",
            ..Asked::default()
        };
        let ended = or_drained(&not_ready, &log, async {
            ensure_ready(&not_ready).await?;
            Ok(Ended::BySignal)
        });
        assert_eq!(ended.await, Err(Told));
        assert_eq!(not_ready.of.lock().unwrap().last().unwrap(), "drain");
        let served = Asked::default();
        let ended = or_drained(&served, &log, async { Ok(Ended::ByListener) });
        assert_eq!(ended.await, Ok(Ended::ByListener));
        assert_eq!(served.of.lock().unwrap().len(), 0);
    }
}
