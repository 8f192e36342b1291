//! Serving, the background loop, and the one drain.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::Isolation;
use plimsoll_sandbox::Sandbox;
use plimsoll_service::auth::{Callers, Registry, Throttle};
use plimsoll_service::corridor::Corridor;
use plimsoll_service::edge::{self, Drain, Drained, Edge, EdgeParts, Listener, MetricsSite, Timeouts};
use plimsoll_service::limiter::Limiter;
use plimsoll_service::log::Log;
use plimsoll_service::metrics::{Metrics, Readings};
use plimsoll_service::readiness::Readiness;
use plimsoll_service::sessions::Keeper;
use plimsoll_service::tls::Tls;
use tokio::sync::Notify as Hangups;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::memory;
use crate::notify::Notify;
use crate::reload::Reloader;
use crate::signals::Signals;

/// How long requests in flight may take to end after the first signal: longer than the longest run and its cleanup.
const DRAIN: Duration = Duration::from_secs(6 * 60);

/// Scrapers are few.
const METRICS_CONNECTIONS: usize = 64;

/// A scrape takes milliseconds; an idle keep-alive connection is not waited for.
const METRICS_DRAIN: Duration = Duration::from_secs(1);

/// How often the background loop looks.
const BACKGROUND: Duration = Duration::from_secs(60);

/// Longest look for orphans.
const RECONCILE_BOUND: Duration = Duration::from_secs(30);

/// What is bound, and how many connections callers may open.
pub(crate) struct Listeners {
    pub(crate) rpc: TcpListener,
    pub(crate) metrics: Option<TcpListener>,
    /// What all of them serve with; `None` = in clear.
    pub(crate) tls: Option<Tls>,
    /// `None` = no limit known.
    pub(crate) max_connections: Option<usize>,
}

/// Why the daemon stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    BySignal,
    ByListener,
}

/// Everything that serves, ready to.
pub(crate) struct Service {
    edge: Edge,
    page: MetricsSite,
    readiness: Readiness,
    sandbox: Arc<dyn Sandbox>,
    keeper: Option<Keeper>,
    reloader: Reloader,
    limiter: Limiter,
    refused_credentials: Arc<Throttle>,
    proven: Isolation,
    log: Log,
}

impl Service {
    pub(crate) fn new(config: Config, proven: Isolation, log: &Log) -> Self {
        let Config {
            limits,
            sessions,
            sandbox,
            auth,
            reload,
            profiles,
            hardened,
            tls,
            ..
        } = config;
        let metrics = Arc::new(Metrics::default());
        let limiter = Limiter::new(limits);
        let readiness = Readiness::new(Arc::clone(&sandbox), log.clone());
        let served = Arc::clone(&sandbox);
        let refused_credentials = Arc::new(Throttle::new(log.clone(), "credentials refused"));
        let keeper = sessions.on().then(|| {
            let (sandbox, metrics) = (Arc::clone(&sandbox), Arc::clone(&metrics));
            Keeper::new(sandbox, sessions, limiter.clone(), metrics, log.clone())
        });
        let callers = Callers::new(auth.into_auth());
        let objections = Box::new(move |registry: &Registry| {
            let rules = hardened.iter().flat_map(|facts| facts.objections(registry));
            rules.map(|violation| violation.to_string()).collect()
        });
        let reloader = Reloader::new(reload, callers.clone(), keeper.clone(), objections, log.clone());
        let page = MetricsSite::new({
            let (metrics, limiter, sandbox, log) =
                (Arc::clone(&metrics), limiter.clone(), Arc::clone(&sandbox), log.clone());
            let keeper = keeper.clone();
            move || {
                let current = sandbox.evidence().isolation;
                let (in_flight, log_write_errors) = (limiter.in_flight(), log.write_errors());
                metrics.render(&Readings {
                    in_flight,
                    proven,
                    current,
                    log_write_errors,
                    failed_handshakes: tls.as_ref().map(Tls::failed_handshakes),
                    sessions: keeper.as_ref().map(Keeper::readings),
                })
            }
        });
        let edge = Edge::new(EdgeParts {
            handler: Arc::new(Corridor::with_sessions(
                sandbox,
                profiles,
                limiter.clone(),
                Arc::clone(&metrics),
                log.clone(),
                keeper.clone(),
            )),
            authenticator: Arc::new(callers),
            ready: Arc::new(readiness.clone()),
            refused_credentials: Some(Arc::clone(&refused_credentials)),
            metrics,
            max_concurrent: limits.max_concurrent,
        });
        Self {
            edge,
            page,
            readiness,
            sandbox: served,
            keeper,
            reloader,
            limiter,
            refused_credentials,
            proven,
            log: log.clone(),
        }
    }

    /// Serves until a signal or a failed listener, then drains.
    ///
    /// # Errors
    /// A listener cannot be handed to the runtime.
    pub(crate) async fn run(self, listeners: Listeners, mut signals: Signals, notify: &Notify) -> io::Result<Ended> {
        let Self {
            edge,
            page,
            readiness,
            sandbox,
            keeper,
            reloader,
            limiter,
            refused_credentials,
            proven,
            log,
        } = self;
        // What can fail comes before the first caller is served.
        let listener = |socket| {
            let socket = tokio::net::TcpListener::from_std(socket)?;
            io::Result::Ok(Listener::new(socket, listeners.tls.clone()))
        };
        let rpc = listener(listeners.rpc)?;
        let metrics = listeners.metrics.map(listener).transpose()?;
        let (stop_rpc, stop_metrics) = (CancellationToken::new(), CancellationToken::new());
        let background = tokio::spawn(background(
            readiness.clone(),
            Arc::clone(&sandbox),
            Arc::clone(&refused_credentials),
            proven,
            log.clone(),
        ));
        let giving_back = tokio::spawn(memory::give_back(limiter));
        let rpc = {
            let drain = Drain {
                stop: stop_rpc.clone(),
                budget: DRAIN,
            };
            let cap = listeners.max_connections.unwrap_or(0);
            spawn(edge::serve(rpc, edge, Timeouts::RPC, cap, drain), stop_rpc.clone())
        };
        let metrics = metrics.map(|listener| {
            let drain = Drain {
                stop: stop_metrics.clone(),
                budget: METRICS_DRAIN,
            };
            let served = edge::serve(listener, page, Timeouts::METRICS, METRICS_CONNECTIONS, drain);
            spawn(served, stop_metrics.clone())
        });
        let hangups = Arc::new(Hangups::new());
        let reloading = tokio::spawn(reloader.run(Arc::clone(&hangups)));
        let ended = tokio::select! {
            () = signals.stop(|| hangups.notify_one()) => Ended::BySignal,
            () = stop_rpc.cancelled() => Ended::ByListener,
            () = stop_metrics.cancelled() => Ended::ByListener,
        };
        readiness.drain();
        stop_rpc.cancel();
        background.abort();
        giving_back.abort();
        reloading.abort();
        log.info("draining").uint("limit_s", DRAIN.as_secs()).send();
        if let Err(error) = notify.stopping() {
            log.warn("the service manager could not be told")
                .text("error", &error.to_string())
                .send();
        }
        let began = Instant::now();
        tell_end(rpc.await, "PLIMSOLL_ADDR", &log);
        if let Some(keeper) = keeper {
            drain_sessions(&keeper, DRAIN.saturating_sub(began.elapsed()), &log).await;
        }
        drain_provider(&*sandbox, DRAIN.saturating_sub(began.elapsed()), &log).await;
        stop_metrics.cancel();
        if let Some(metrics) = metrics {
            tell_end(metrics.await, "PLIMSOLL_METRICS_ADDR", &log);
        }
        refused_credentials.tell();
        log.tell_refused();
        log.info("stopped").send();
        Ok(ended)
    }
}

/// Runs a listener in a task of its own. However it ends, `stop` fires: a listener that fails stops the daemon.
fn spawn(listener: impl Future<Output = Drained> + Send + 'static, stop: CancellationToken) -> JoinHandle<Drained> {
    tokio::spawn(async move {
        let _stop = stop.drop_guard();
        listener.await
    })
}

/// Says how a listener ended where that is not as it should.
fn tell_end(end: Result<Drained, JoinError>, variable: &str, log: &Log) {
    let failed = |cause: String| {
        log.error("a listener failed")
            .text("variable", variable)
            .text("error", &cause)
            .send();
    };
    match end {
        Ok(Drained { forced, failure }) => {
            if let Some(cause) = failure {
                failed(cause.to_string());
            }
            if forced > 0 {
                log.error("the drain took too long; connections were closed by force")
                    .text("variable", variable)
                    .count("connections", forced)
                    .send();
            }
        }
        Err(cause) => failed(cause.to_string()),
    }
}

/// Every session ends with the daemon, and its sandbox goes.
async fn drain_sessions(keeper: &Keeper, budget: Duration, log: &Log) {
    let left = keeper.drain(budget).await;
    if left > 0 {
        log.error("sessions were not removed in time; the next start finds what they left")
            .uint("sessions", left)
            .send();
    }
}

/// What the provider keeps ready, or removes off the result path, goes within the drain's time.
pub(crate) async fn drain_provider(sandbox: &dyn Sandbox, budget: Duration, log: &Log) {
    let failed = |cause: String| {
        log.error("the provider left something behind; the next start finds it")
            .text("provider", sandbox.evidence().provider)
            .text("error", &cause)
            .send();
    };
    match tokio::time::timeout(budget, sandbox.drain()).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => failed(fault.to_string()),
        Err(_) => failed("the drain's time is up".to_owned()),
    }
}

/// At start and once a minute: removes what dead processes left behind, restores a fallen tier, and tells of refused
/// credentials and calls nobody has heard of yet.
async fn background(
    readiness: Readiness,
    sandbox: Arc<dyn Sandbox>,
    refused_credentials: Arc<Throttle>,
    proven: Isolation,
    log: Log,
) {
    loop {
        reconcile(&*sandbox, &log).await;
        tokio::time::sleep(BACKGROUND).await;
        readiness.restore(proven).await;
        refused_credentials.tell();
        log.tell_refused();
    }
}

async fn reconcile(sandbox: &dyn Sandbox, log: &Log) {
    let told = |text: &'static str| log.warn(text).text("provider", sandbox.evidence().provider);
    match tokio::time::timeout(RECONCILE_BOUND, sandbox.reconcile()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(removed)) => told("sandboxes of dead processes were removed")
            .count("removed", removed)
            .send(),
        Ok(Err(fault)) => told("orphans could not be looked for")
            .text("error", &fault.to_string())
            .send(),
        Err(_) => told("orphans could not be looked for")
            .text("error", &format!("no answer within {} s", RECONCILE_BOUND.as_secs()))
            .send(),
    }
}
