//! The start-up order and what happens between the first request and the last line.

use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll::env::Environment;
use plimsoll_core::vars::SettingError;
use plimsoll_core::{Isolation, Tier};
use plimsoll_sandbox::{ProviderFault, Sandbox, ensure_ready};
use plimsoll_service::auth::Mode;
use plimsoll_service::log::{Events, Log, cut};
use plimsoll_service::settings::{ADDR, METRICS_ADDR, NOTIFY_SOCKET, log_format};

use crate::config::Config;
use crate::harden::{self, HardenError};
use crate::listen;
use crate::notify::Notify;
use crate::serve::{Ended, Listeners, Service};
use crate::signals::Signals;

/// How long the last lines may take to leave when nobody reads them.
const FLUSH_BOUND: Duration = Duration::from_secs(5);

/// How long the proof of sessions may take.
const SESSION_PROOF: Duration = Duration::from_secs(120);

/// Why the daemon does not serve.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Harden(#[from] HardenError),
    #[error("{0}")]
    Setting(#[from] SettingError),
    #[error("the provider is not ready: {0}")]
    NotReady(#[from] ProviderFault),
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[from] io::Error),
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
        .map_err(|error| vec![error.into()])
        .and_then(|()| start(environment, &log));
    let code = match ended {
        Ok(Ended::BySignal) => ExitCode::SUCCESS,
        Ok(Ended::ByListener) => ExitCode::FAILURE,
        Err(errors) => {
            for error in errors {
                log.error("the daemon does not start")
                    .text("error", &error.to_string())
                    .send();
            }
            ExitCode::FAILURE
        }
    };
    log.flush(FLUSH_BOUND);
    code
}

fn start(environment: Environment, log: &Log) -> Result<Ended, Vec<StartError>> {
    let one = |error: StartError| vec![error];
    let config = Config::read(&environment)
        .map_err(|problems| problems.into_iter().map(StartError::from).collect::<Vec<_>>())?;
    for warning in config.warnings() {
        log.warn(&warning).send();
    }
    let notify = Notify::new(NOTIFY_SOCKET.text(&environment).map_err(|error| one(error.into()))?);
    // Wipes what was read; the kernel's own copy is unreadable since the process was hardened.
    drop(environment);
    let listeners = bind(&config).map_err(|errors| errors.into_iter().map(StartError::from).collect::<Vec<_>>())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Connections and calls share these threads. Guests that compute give their thread back every millisecond; the
        // listeners are looked at each time they do, and not, as by default, every 61st time. Without this one caller makes
        // everybody else's answers wait.
        .event_interval(1)
        .build()
        .map_err(|error| one(error.into()))?;
    let ended = runtime
        .block_on(prove_and_serve(config, listeners, notify, log))
        .map_err(one);
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
        prove_sessions(&*config.sandbox).await?;
    }
    let listeners = Listeners {
        rpc,
        metrics,
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

/// Every promise about sessions, kept once with throwaway ones before the first caller relies on it.
async fn prove_sessions(sandbox: &dyn Sandbox) -> Result<(), ProviderFault> {
    let fault = |cause: String| ProviderFault {
        phase: "session smoke test",
        cause,
    };
    let Some(sessions) = sandbox.sessions() else {
        return Err(fault("the provider keeps no sessions".to_owned()));
    };
    tokio::time::timeout(SESSION_PROOF, sessions.smoke_test())
        .await
        .unwrap_or_else(|_| Err(fault(format!("not proven within {} s", SESSION_PROOF.as_secs()))))
}

/// The start-up line. Its types are an interface: numbers are numbers, `auth` and `tls` truth values.
fn say_listening(config: &Config, listeners: &Listeners, proven: Isolation, log: &Log) -> io::Result<()> {
    let metrics_addr = match &listeners.metrics {
        Some(listener) => listener.local_addr()?.to_string(),
        None => "off".to_owned(),
    };
    if let Mode::Registry { callers, .. } = &config.auth {
        log.info("callers loaded").count("callers", *callers).send();
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
        .bool("tls", false)
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
