//! Daemons: the service's corridor on a node of the simulated network, with a provider that notes what it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use plimsoll_core::{
    Availability, Code, Diagnostics, Environments, Evidence, Fault, FaultKind, Isolation, JavaScriptResult, Outcome,
    Payload, PayloadEnvironment, Reason, Refusal, RunError, RunResult, Tier,
};
use plimsoll_grants::Profiles;
use plimsoll_sandbox::{AdmittedCall, BoxFuture, ProviderFault, Received, RunContext, Sandbox};
use plimsoll_service::auth::Principal;
use plimsoll_service::corridor::Corridor;
use plimsoll_service::handler::{CallContext, Handler as _};
use plimsoll_service::limiter::{Limiter, Limits};
use plimsoll_service::log::{Format, Log};
use plimsoll_service::metrics::Metrics;

use plimsoll_wire::http::{JSON, Procedure, REQUEST_ID, SERVICE_PATH};
use plimsoll_wire::json::to_json;
use plimsoll_wire::{ErrorAnswer, decode_run_json, describe_response, pb};
use tokio_util::sync::CancellationToken;
use turmoil::net::{TcpListener, TcpStream};

use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::plan::{DaemonRule, Plan};

/// The port of a node's first daemon; the others follow.
pub(crate) const FIRST_PORT: u16 = 8746;

/// Runs each daemon does at once: few, so that callers meet full ones.
const CONCURRENT: u32 = 3;

/// Longest life of a connection, for all of an edge's clocks: longer than the slowest run.
const CONNECTION: Duration = Duration::from_secs(5);

/// How much slower a slow node is: most of its runs outlast their callers' patience.
const SLOWNESS: u32 = 60;

/// A node, whose faults all its daemons share.
pub(crate) struct Node {
    index: usize,
    daemons: Vec<Arc<Provider>>,
    state: Arc<State>,
    log: Log,
}

/// What ails a node without ending it.
#[derive(Debug, Default)]
pub(crate) struct State {
    slow: AtomicBool,
    fallen: AtomicBool,
}

impl Node {
    pub(crate) fn new(plan: &Plan, index: usize, ledger: &Arc<Mutex<Ledger>>) -> std::io::Result<Self> {
        let state = Arc::new(State::default());
        let daemons = (0..plan.daemons_per_node)
            .map(|daemon| {
                Arc::new(Provider::new(
                    plan,
                    index * plan.daemons_per_node + daemon,
                    &state,
                    ledger,
                ))
            })
            .collect();
        Ok(Self {
            index,
            daemons,
            state,
            log: Log::new(Format::Json, std::io::sink())?,
        })
    }

    pub(crate) fn name(&self) -> String {
        node_name(self.index)
    }

    /// Everything on it takes far longer, from the next run on.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.state.slow.store(slow, Ordering::Relaxed);
    }

    /// Its tier is not known, whatever was described before.
    pub(crate) fn set_fallen(&self, fallen: bool) {
        self.state.fallen.store(fallen, Ordering::Relaxed);
    }

    /// What runs on the node from its start to its crash. A crash takes limiter, slots and connections with it.
    pub(crate) async fn serve(self: Arc<Self>) -> turmoil::Result {
        for (daemon, provider) in self.daemons.iter().enumerate() {
            let listener = TcpListener::bind(("0.0.0.0", port(daemon))).await?;
            let corridor = corridor(Arc::clone(provider), self.log.clone());
            tokio::task::spawn_local(accept(listener, corridor));
        }
        std::future::pending().await
    }
}

pub(crate) fn node_name(index: usize) -> String {
    format!("node-{index}")
}

/// The port of a node's daemon.
pub(crate) fn port(daemon: usize) -> u16 {
    FIRST_PORT + u16::try_from(daemon).unwrap_or_default()
}

fn corridor(provider: Arc<Provider>, log: Log) -> Corridor {
    let limiter = Limiter::new(Limits {
        max_concurrent: CONCURRENT,
        per_key_concurrent: 0,
        rate_per_min: 0,
        rate_burst: 0,
        memory: None,
    });
    Corridor::new(
        provider,
        Profiles::default(),
        limiter,
        Arc::new(Metrics::default()),
        log,
    )
}

/// Sockets belong to local tasks: a crash ends these in the order in which they began. What a runtime spawns it drops in an
/// order that depends on how many tasks the process has ever had, and with it would the order of the packets.
async fn accept(listener: TcpListener, corridor: Corridor) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(connection(stream, corridor.clone()));
    }
}

async fn connection(stream: TcpStream, corridor: Corridor) {
    let answers = service_fn(move |request| answer(corridor.clone(), request));
    let serving = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), answers);
    // One that breaks off is its caller's matter. One that lost a packet never ends by itself, because nothing is sent again.
    drop(tokio::time::timeout(CONNECTION, serving).await);
}

async fn answer(corridor: Corridor, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let id = request.headers().get(REQUEST_ID).cloned();
    let procedure = request
        .uri()
        .path()
        .strip_prefix(SERVICE_PATH)
        .and_then(Procedure::from_name);
    let body = request.into_body().collect().await?.to_bytes();
    let (status, body) = match called(&corridor, procedure, &body).await {
        Ok(body) => (200, body),
        Err(error) => (error.code().http_status(), error.to_json()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    Ok(response)
}

async fn called(corridor: &Corridor, procedure: Option<Procedure>, body: &[u8]) -> Result<Vec<u8>, ErrorAnswer> {
    match procedure {
        Some(Procedure::Describe) => Ok(to_json(&describe_response(&corridor.describe()))),
        Some(Procedure::Run) => {
            let request =
                decode_run_json(body).map_err(|fault| ErrorAnswer::refused(&Refusal::request(fault.to_string())))?;
            let context = CallContext {
                principal: Principal::anonymous(),
                received: Received::now(),
                deadline: None,
                cancelled: CancellationToken::new(),
            };
            let answer = corridor.run(context, request).await.map_err(|error| match error {
                RunError::NotDispatched(refusal) => ErrorAnswer::refused(&refusal),
                RunError::MayHaveRun(fault) => ErrorAnswer::unmarked(fault.code(), fault.message()),
            })?;
            Ok(to_json(&pb::RunResponse::from(answer)))
        }
        _ => Err(ErrorAnswer::refused(&Refusal::unsupported(
            "this daemon has Describe and Run",
        ))),
    }
}

/// Runs nothing: it notes that it began, and sleeps.
struct Provider {
    seed: u64,
    index: usize,
    rule: DaemonRule,
    evidence: Arc<Evidence>,
    fallen: Arc<Evidence>,
    state: Arc<State>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Provider {
    fn new(plan: &Plan, index: usize, state: &Arc<State>, ledger: &Arc<Mutex<Ledger>>) -> Self {
        let evidence = evidence(if index.is_multiple_of(3) {
            Tier::Container
        } else {
            Tier::Kernel
        });
        let fallen = Evidence {
            isolation: Isolation::Unknown,
            ..evidence.clone()
        };
        Self {
            seed: plan.seed,
            index,
            rule: plan.daemons,
            evidence: Arc::new(evidence),
            fallen: Arc::new(fallen),
            state: Arc::clone(state),
            ledger: Arc::clone(ledger),
        }
    }

    async fn execute(&self, run: usize) -> Result<Outcome, RunError> {
        let mut chance = Chance::of(self.seed, run as u64, self.index as u64);
        let slow = if self.state.slow.load(Ordering::Relaxed) {
            SLOWNESS
        } else {
            1
        };
        tokio::time::sleep(chance.millis(0, 3)).await;
        if chance.one_in(40) {
            // The sandbox could not be made, so nothing of the run was sent to it.
            return Err(Refusal::new(Code::Internal, Reason::Environment, "no sandbox could be made").into());
        }
        self.ledger.lock().begun(run, self.index);
        tokio::time::sleep(chance.millis(1, 30) * slow).await;
        if chance.one_in(60) {
            return Err(match self.rule {
                DaemonRule::Honest => Fault::new(FaultKind::Internal, "the sandbox was lost").into(),
                DaemonRule::MarksLostRuns => Refusal::capacity("no room").into(),
            });
        }
        Ok(Outcome {
            result: RunResult::JavaScript(JavaScriptResult {
                stdout: format!("{run}\n").into_bytes(),
                ..JavaScriptResult::default()
            }),
            isolation: self.evidence().isolation,
            duration_ms: 0,
            environment: environment().identity,
            software_identity: environment().software_identity,
            instance: String::new(),
            diagnostics: Diagnostics::default(),
        })
    }
}

impl Sandbox for Provider {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::clone(if self.state.fallen.load(Ordering::Relaxed) {
            &self.fallen
        } else {
            &self.evidence
        })
    }

    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn time_limit(&self, _: &AdmittedCall) -> Duration {
        Duration::from_secs(30)
    }

    fn run<'a>(&'a self, call: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(async move {
            call.recheck(&self.evidence())?;
            let run = run_of(call).ok_or_else(|| Refusal::request("the program names no run"))?;
            self.execute(run).await
        })
    }
}

/// The program of a run.
pub(crate) fn program(run: usize) -> String {
    format!("console.log({run})")
}

fn run_of(call: &AdmittedCall) -> Option<usize> {
    match call.payload() {
        Payload::JavaScript(snippet) => {
            let run = snippet.code.strip_prefix("console.log(")?.strip_suffix(')')?;
            run.parse().ok()
        }
        _ => None,
    }
}

fn environment() -> PayloadEnvironment {
    PayloadEnvironment {
        identity: format!("docker-image:sha256:{:064x}", 1),
        max_timeout_ms: 300_000,
        software_identity: format!("oci-manifest:linux/amd64@sha256:{:064x}", 2),
        languages: vec!["javascript".to_owned()],
    }
}

fn evidence(tier: Tier) -> Evidence {
    Evidence {
        provider: "docker",
        availability: Availability::Serving,
        isolation: Isolation::Proven(tier),
        environments: Environments {
            javascript: Some(environment()),
            ..Environments::default()
        },
        ..Evidence::disabled()
    }
}
