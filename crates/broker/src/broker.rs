//! The run's broker: every rule of one call, in the one order that counts.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use http::uri::PathAndQuery;
use http_body::Body;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use plimsoll_grants::breaker::{Breaker, Gate, cooldown};
use plimsoll_grants::caps::RouteCaps;
use plimsoll_grants::grant::{AllowedRoute, Grant};
use plimsoll_grants::mint::Credential;
use plimsoll_grants::origin::Host;
use plimsoll_grants::route::{Method, Target};
use plimsoll_grants::trace::{CallTrace, Measured, TraceRecorder};
use rustls::pki_types::ServerName;
use tokio::sync::Semaphore;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::answer::{
    ADDRESS, ANSWER_BROKEN, ANSWER_ECHO, ANSWER_TOO_LARGE, BODY_TOO_LARGE, BUDGET, BUSY, BrokerAnswer, CUT_SHORT,
    ENDED, NO_ANSWER, ROUTE, ROUTE_CAP, Refused, SHED, TIMEOUT,
};
use crate::options::{BrokerError, BrokerOptions, CauseObserver};
use crate::tls::system_tls;
use crate::upstream::dial::{DialError, Dialer, Tls};
use crate::upstream::{Fault, Gather, TooLarge, Upstream};

/// Calls a run may have in flight; one more is refused at once.
pub const MAX_CONCURRENT_CALLS: usize = 16;

/// Largest request body, in bytes.
pub const MAX_REQUEST_BODY: usize = 1 << 20;

/// Largest answer body after decoding, in bytes.
pub const MAX_RESPONSE_BODY: usize = 4 << 20;

/// How long a health probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of a run waits for calls that are being cancelled.
const END_WAIT: Duration = Duration::from_secs(2);

/// One run's access to one API.
///
/// Must be used inside a tokio runtime. Dropping it closes every connection; [`Broker::end`] does so while calls may still
/// be in flight.
#[derive(Debug)]
pub struct Broker {
    grant: Grant,
    upstream: Upstream,
    slots: Semaphore,
    calls: AtomicU32,
    caps: Arc<RouteCaps>,
    breaker: Mutex<Breaker>,
    recorder: TraceRecorder,
    causes: Option<Arc<dyn CauseObserver>>,
    ended: CancellationToken,
}

impl Broker {
    /// Opens the access of one run. Nothing is sent; on an `https` origin the host's certificate store may be read.
    ///
    /// `credential` is what was minted for this run; it leaves this object only as a header to the grant's origin.
    ///
    /// # Errors
    /// When TLS cannot be set up, or host or credential cannot stand in a request.
    pub fn open(
        grant: Grant,
        credential: Option<Credential>,
        options: BrokerOptions,
    ) -> Result<Arc<Self>, BrokerError> {
        let origin = grant.origin().clone();
        let tls = if origin.is_https() {
            Some(Tls {
                config: match options.tls {
                    Some(config) => config,
                    None => system_tls()?,
                },
                name: server_name(origin.host())?,
            })
        } else {
            None
        };
        let dialer = Dialer {
            origin,
            allow_private: grant.allow_private().to_vec(),
            resolver: options.resolver,
            tls,
        };
        let upstream = Upstream::new(dialer, credential, options.user_agent, MAX_RESPONSE_BODY)?;
        Ok(Arc::new(Self {
            grant,
            upstream,
            slots: Semaphore::new(MAX_CONCURRENT_CALLS),
            calls: AtomicU32::new(0),
            caps: options.caps.unwrap_or_default(),
            breaker: Mutex::new(Breaker::new()),
            recorder: TraceRecorder::new(options.observer),
            causes: options.causes,
            ended: CancellationToken::new(),
        }))
    }

    /// Answers one call: `method` in any case, `raw_target` as it stood on the request line, before anything decoded or
    /// cleaned it.
    ///
    /// Always answers. Dropping the future cancels the call; if it was sent, the trace says so.
    pub async fn call<B>(&self, method: &[u8], raw_target: &[u8], body: B) -> BrokerAnswer
    where
        B: Body<Data = Bytes> + Send,
    {
        // A guest may loop over calls that are refused at once; its thread is shared.
        consume_budget().await;
        if self.ended.is_cancelled() {
            return self.denied(ENDED);
        }
        let Ok(_slot) = self.slots.try_acquire() else {
            return self.denied(BUSY);
        };
        if !self.spend_call() {
            self.recorder.denied_by_budget();
            return BUDGET.answer();
        }
        let (Some(method), Ok(target)) = (Method::from_bytes(method), Target::parse(raw_target)) else {
            return self.denied(ROUTE);
        };
        let Some(route) = self.grant.find(method, target) else {
            return self.denied(ROUTE);
        };
        if self.caps.charge(&self.grant, method, target).is_err() {
            return self.denied(ROUTE_CAP);
        }
        match self.pass_breaker().await {
            Passed::Yes => {}
            Passed::No => {
                self.recorder.shed();
                return SHED.answer();
            }
            Passed::Ended => return self.denied(ENDED),
        }
        let body = match self.until_end(read_body(body)).await {
            Some(Ok(body)) => body,
            Some(Err(TooLarge)) => return self.denied(BODY_TOO_LARGE),
            None => return self.denied(ENDED),
        };
        let Some(wire_target) = exact_target(target) else {
            return self.denied(ROUTE);
        };
        // The body may have taken its time.
        if self.ended.is_cancelled() {
            return self.denied(ENDED);
        }
        self.send(method, &wire_target, body, route).await
    }

    /// Ends the run's authority: no call starts any more, those in flight are cancelled, kept connections are closed.
    ///
    /// Waits at most 2 s for the calls in flight and returns the trace, which then holds every call that reached the API;
    /// none when nothing was called. Ending twice is ending once.
    pub async fn end(&self) -> Option<CallTrace> {
        self.ended.cancel();
        self.upstream.close();
        // All slots free: no call is in flight.
        let all = u32::try_from(MAX_CONCURRENT_CALLS).unwrap_or(u32::MAX);
        let _ = timeout(END_WAIT, self.slots.acquire_many(all)).await;
        self.recorder.snapshot()
    }

    /// The trace so far, without ending anything.
    pub fn trace(&self) -> Option<CallTrace> {
        self.recorder.snapshot()
    }

    /// The grant this broker enforces.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    fn denied(&self, refused: Refused) -> BrokerAnswer {
        self.recorder.denied();
        refused.answer()
    }

    /// Counts a call, whatever becomes of it; false when the budget is used up.
    fn spend_call(&self) -> bool {
        let budget = self.grant.budget();
        let spend = |calls| (calls < budget).then_some(calls + 1);
        self.calls
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .is_ok()
    }

    async fn pass_breaker(&self) -> Passed {
        let probe = self.grant.health_check();
        let gate = self.breaker.lock().gate(now(), probe.is_some());
        match (gate, probe) {
            (Gate::Pass, _) => Passed::Yes,
            (Gate::Probe, Some(route)) => Box::pin(self.probe(route.path())).await,
            (Gate::Probe | Gate::Shed, _) => Passed::No,
        }
    }

    /// Asks the health route on behalf of one call.
    async fn probe(&self, path: &str) -> Passed {
        let ask = async {
            let target = PathAndQuery::try_from(path).ok()?;
            timeout(PROBE_TIMEOUT, self.upstream.health(&target)).await.ok()?.ok()
        };
        let Some(health) = self.until_end(ask).await else {
            return Passed::Ended;
        };
        let mut breaker = self.breaker.lock();
        let (status, retry_after) = health.map_or((0, None), |health| (health.status, health.retry_after));
        if matches!(status, 200..=299) {
            return if breaker.probed_healthy() {
                Passed::Yes
            } else {
                Passed::No
            };
        }
        let pause = cooldown(retry_after.as_ref().map(HeaderValue::as_bytes), SystemTime::now());
        breaker.open(now(), pause, status == 429);
        Passed::No
    }

    /// Sends an approved call. From here on it has a row in the trace.
    async fn send(&self, method: Method, target: &PathAndQuery, body: Bytes, route: AllowedRoute) -> BrokerAnswer {
        let mut sending = Sending::start(&self.recorder, route, body.len());
        let method = http_method(method);
        let call = self.upstream.call(&method, target, body, &mut sending.call.status);
        let outcome = self.until_end(timeout(self.grant.call_timeout(), call)).await;
        let fault = match outcome {
            Some(Ok(Ok(reply))) => {
                let status = sending.delivered(reply.body.len());
                if matches!(status, 429 | 503) {
                    let retry_after = reply.retry_after.as_ref().map(HeaderValue::as_bytes);
                    let pause = cooldown(retry_after, SystemTime::now());
                    self.breaker.lock().open(now(), pause, status == 429);
                }
                return BrokerAnswer {
                    status,
                    content_type: reply.content_type,
                    body: reply.body,
                };
            }
            Some(Ok(Err(fault))) => fault,
            Some(Err(_)) => {
                let limit = self.grant.call_timeout().as_secs();
                self.tell(&format_args!("no whole answer within {limit} s"));
                return TIMEOUT.answer();
            }
            None => return CUT_SHORT.answer(),
        };
        tracing::debug!(reason = %fault, "a host call has no answer to deliver");
        self.tell(&fault);
        told_as(&fault).answer()
    }

    /// Tells the cause where somebody may know it.
    fn tell(&self, cause: &dyn fmt::Display) {
        if let Some(causes) = &self.causes {
            causes.unanswered(&cause.to_string());
        }
    }

    /// The output of `future`, or nothing when the run ends first.
    async fn until_end<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            output = future => Some(output),
        }
    }
}

/// What the breaker, and the probe it may have asked for, say about a call.
enum Passed {
    Yes,
    No,
    Ended,
}

/// A call that is being sent. Writes its row when it is over, however it ends: dropped calls are in the trace too.
struct Sending<'a> {
    recorder: &'a TraceRecorder,
    route: AllowedRoute,
    started: Instant,
    call: Measured,
}

impl<'a> Sending<'a> {
    fn start(recorder: &'a TraceRecorder, route: AllowedRoute, body: usize) -> Self {
        Self {
            recorder,
            route,
            started: Instant::now(),
            call: Measured {
                status: 0,
                delivered: false,
                req_bytes: body as u64,
                resp_bytes: 0,
                latency: Duration::ZERO,
            },
        }
    }

    /// The answer goes to the guest; returns its status.
    fn delivered(&mut self, body: usize) -> u16 {
        self.call.delivered = true;
        self.call.resp_bytes = body as u64;
        self.call.status
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.call.latency = self.started.elapsed();
        self.recorder.record(&self.route, self.call);
    }
}

fn told_as(fault: &Fault) -> Refused {
    match fault {
        Fault::Dial(DialError::Refused(_)) => ADDRESS,
        Fault::NoAnswer(error) if error.is_parse() => ANSWER_BROKEN,
        Fault::Dial(_) | Fault::NoAnswer(_) => NO_ANSWER,
        Fault::Framing | Fault::Short(_) | Fault::Coding => ANSWER_BROKEN,
        Fault::TooLarge => ANSWER_TOO_LARGE,
        Fault::Echo => ANSWER_ECHO,
    }
}

/// Reads a body whole; one that breaks off counts as one that is too large, because neither may be sent.
async fn read_body<B>(body: B) -> Result<Bytes, TooLarge>
where
    B: Body<Data = Bytes> + Send,
{
    if body.size_hint().lower() > MAX_REQUEST_BODY as u64 {
        return Err(TooLarge);
    }
    let mut body = pin!(body);
    let mut whole = Gather::new(MAX_REQUEST_BODY);
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|_| TooLarge)?.into_data() {
            whole.push(piece)?;
        }
    }
    Ok(whole.finish())
}

/// The target as the HTTP stack will write it, when that is exactly what was approved.
fn exact_target(target: Target<'_>) -> Option<PathAndQuery> {
    let wire = PathAndQuery::try_from(target.as_str()).ok()?;
    (wire.as_str() == target.as_str()).then_some(wire)
}

fn http_method(method: Method) -> http::Method {
    match method {
        Method::Get => http::Method::GET,
        Method::Put => http::Method::PUT,
        Method::Post => http::Method::POST,
        Method::Delete => http::Method::DELETE,
        Method::Patch => http::Method::PATCH,
    }
}

fn server_name(host: &Host) -> Result<ServerName<'static>, BrokerError> {
    match host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        // Certificates name hosts without the dot that ends an absolute name.
        Host::Name(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            ServerName::try_from(name.to_owned()).map_err(|_| BrokerError::Host)
        }
    }
}

/// The clock of tests stands still when they ask for it; the breaker's moves with it.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}
