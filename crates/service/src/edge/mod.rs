//! The edge: everything between the socket and a decoded request.
//!
//! Stands before the RPC library and sees every request first, because the order of its checks is a promise:
//! echo, route, caller and scope, declared size, decode slot, then method, content type, versions, timeout and
//! encoding, and only then the body. Nothing before that last step polls the body, so a refusal never waits for one.
//!
//! ```text
//! accept ─► clocks ─► echo ─► route ─► caller ─► declared size ─► decode slot ─► headers ─► body ─► rpc
//!           connection                 authenticate               slots          headers    body
//! ```

mod answer;
mod authenticate;
mod body;
mod connection;
mod headers;
mod ledger;
mod metrics_site;
mod serve;
mod slots;
mod stream;
mod unread;

pub use authenticate::{AuthFailure, Authenticator, Outage};
pub use body::EdgeBody;
pub(crate) use body::{GunzipFault, gunzip};
pub use connection::{Connection, Exchange, Timeouts};
pub use metrics_site::MetricsSite;
pub use serve::{Drain, Drained, Listener, Site, serve};
pub use slots::{DecodeSlot, DecodeSlots};

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response, StatusCode, Version, request};
use http_body::Body as _;
use hyper::body::Incoming;
use plimsoll_core::limits::MAX_REQUEST_BYTES;
use plimsoll_core::{Code, Reason, Refusal};
use plimsoll_sandbox::BoxFuture;
use plimsoll_wire::http::{Procedure, SCOPE_RUN, SERVICE_PATH};

use self::answer::Refused;
use self::body::BodyFault;
use self::unread::UnreadAnswers;
use crate::auth::{Principal, Throttle};
use crate::handler::Handler;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::rpc::{self, Call, Codec, Rpc};

/// Whether the daemon can serve: what `/readyz` asks.
pub trait Ready: Send + Sync + 'static {
    /// The answer of this moment; the cause of a no goes to the log, never to the caller.
    fn ready(&self) -> BoxFuture<'_, bool>;
}

impl Ready for Readiness {
    fn ready(&self) -> BoxFuture<'_, bool> {
        Box::pin(Self::ready(self))
    }
}

/// What the edge of the RPC listener is made of.
pub struct EdgeParts {
    /// What stands behind the procedures.
    pub handler: Arc<dyn Handler>,
    /// Who may call.
    pub authenticator: Arc<dyn Authenticator>,
    /// What `/readyz` asks.
    pub ready: Arc<dyn Ready>,
    /// Told of refused credentials, for the log.
    pub refused_credentials: Option<Arc<Throttle>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The effective maximum of concurrent runs; decode slots follow it.
    pub max_concurrent: u32,
}

impl std::fmt::Debug for EdgeParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EdgeParts")
            .field("max_concurrent", &self.max_concurrent)
            .finish_non_exhaustive()
    }
}

/// The site of the RPC listener. Clones share it.
#[derive(Clone)]
pub struct Edge(Arc<Shared>);

struct Shared {
    parts: EdgeParts,
    slots: DecodeSlots,
    unread: UnreadAnswers,
    rpc: Rpc,
}

impl Edge {
    /// An edge before some handler.
    pub fn new(parts: EdgeParts) -> Self {
        let slots = DecodeSlots::new(parts.max_concurrent, Arc::clone(&parts.metrics));
        let unread = UnreadAnswers::new(parts.max_concurrent);
        let rpc = Rpc::new(Arc::clone(&parts.handler));
        Self(Arc::new(Shared {
            parts,
            slots,
            unread,
            rpc,
        }))
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edge")
            .field("slots", &self.0.slots)
            .field("unread", &self.0.unread)
            .finish_non_exhaustive()
    }
}

impl Site for Edge {
    fn respond(&self, request: Request<Incoming>, exchange: Exchange) -> BoxFuture<'static, Response<EdgeBody>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.respond(request, exchange).await })
    }
}

/// The body of a request, and whether its end has been seen.
struct Inbound {
    body: Option<Incoming>,
}

impl Inbound {
    /// Whether bytes may still come.
    fn unread(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.is_end_stream())
    }
}

/// An answer and what the edge must still say about it.
struct Answered {
    response: Response<EdgeBody>,
    /// Set when no handler was reached.
    mark: Option<Reason>,
}

impl From<Refused> for Answered {
    fn from(refused: Refused) -> Self {
        let mark = Some(refused.reason);
        Self {
            response: refused.into_response(),
            mark,
        }
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>, exchange: Exchange) -> Response<EdgeBody> {
        let id = answer::echo(request.headers());
        let (parts, body) = request.into_parts();
        let mut inbound = Inbound { body: Some(body) };
        if !inbound.unread() {
            exchange.request_is_whole();
        }
        let misframed = headers::misframed(parts.version, &parts.headers);
        let http1 = parts.version < Version::HTTP_2;
        let answered = match misframed {
            Some(problem) => Refused::invalid(problem).into(),
            None => self.route(parts, &mut inbound, &exchange).await,
        };

        let mut response = answered.response;
        answer::set_echo(&mut response, id);
        if let Some(reason) = answered.mark {
            answer::mark(&mut response, reason);
        }
        if http1 && (inbound.unread() || misframed.is_some()) {
            answer::close_after(&mut response);
            exchange.connection().expect_unread_body();
        }
        exchange.answered();
        response.map(|body| body.ending(exchange))
    }

    /// Step 2.
    async fn route(&self, parts: request::Parts, inbound: &mut Inbound, exchange: &Exchange) -> Answered {
        let path = parts.uri.path();
        if let Some(name) = path.strip_prefix(SERVICE_PATH) {
            let procedure = Procedure::from_name(name);
            return match self.procedure(procedure, parts, inbound, exchange).await {
                Ok(answered) => answered,
                Err(refused) => {
                    self.parts.metrics.refused(Some(refused.reason), refused.code());
                    refused.into()
                }
            };
        }
        let response = match path {
            "/healthz" => answer::probe(StatusCode::OK, "ok\n"),
            "/readyz" if self.parts.ready.ready().await => answer::probe(StatusCode::OK, "ready\n"),
            "/readyz" => {
                // Not a refused call: the probe was answered, so nothing is marked beyond what 2.4 says of any status.
                let response = answer::probe(StatusCode::SERVICE_UNAVAILABLE, "not ready\n");
                return Answered {
                    response,
                    mark: Some(Reason::Request),
                };
            }
            _ => return Refused::not_found().into(),
        };
        Answered { response, mark: None }
    }

    /// Step 3. What follows is put aside: a stranger is not worth its memory.
    async fn procedure(
        &self,
        procedure: Option<Procedure>,
        parts: request::Parts,
        inbound: &mut Inbound,
        exchange: &Exchange,
    ) -> Result<Answered, Refused> {
        let principal = self.caller(&parts.headers).await?;
        exchange.connection().caller_known();
        Box::pin(self.of_caller(principal, procedure, parts, inbound, exchange)).await
    }

    /// Steps 4 to 6.
    async fn of_caller(
        &self,
        principal: Principal,
        procedure: Option<Procedure>,
        mut parts: request::Parts,
        inbound: &mut Inbound,
        exchange: &Exchange,
    ) -> Result<Answered, Refused> {
        let Some(procedure) = procedure else {
            return Err(if self.parts.authenticator.is_open() {
                Refused::not_found()
            } else {
                Refused::marked(&Refusal::permission(
                    "this procedure is mapped to no scope, so nobody may call it",
                ))
            });
        };
        if !principal.allows(SCOPE_RUN) {
            return Err(Refused::marked(&rpc::scope_refusal()));
        }
        if declared_length(&parts.headers).is_some_and(|length| length > MAX_REQUEST_BYTES as u64) {
            return Err(Refused::marked(&Refusal::new(
                Code::ResourceExhausted,
                Reason::Request,
                "the request body is declared over 8 MiB (8388608 bytes); send a smaller one",
            )));
        }
        let caller = Arc::clone(principal.key());
        self.room(&caller)?;
        let slot = self.slot(&caller)?;
        let form = headers::body_form(&parts.method, &parts.headers)?;
        let received = Instant::now();
        let deadline = form.timeout.and_then(|timeout| received.checked_add(timeout));

        let Some(body) = inbound.body.as_mut() else {
            return Err(Refused::body(BodyFault::Broken));
        };
        let mut message = body::read(body, exchange.body_due()).await.map_err(Refused::body)?;
        inbound.body = None;
        exchange.request_is_whole();
        // Connect: a body of no bytes is never decompressed.
        if form.gzip && !message.is_empty() {
            message = gunzip(&message).map_err(|fault| Refused::body(fault.into()))?;
        }

        // Others of this caller may have been answered while this body came.
        self.room(&caller)?;
        let call = Call::new(procedure, principal, deadline, slot);
        let answered = if headers::errors_under_200(form.protocol) {
            headers::remove_timeouts(&mut parts.headers);
            self.grpc(parts, message, call).await
        } else {
            self.connect(form.codec, &message, call).await?
        };
        Ok(Answered {
            response: answered.response.map(|body| body.counted(&self.unread, &caller)),
            ..answered
        })
    }

    /// Who asks.
    async fn caller(&self, headers: &HeaderMap) -> Result<Principal, Refused> {
        self.parts.authenticator.authenticate(headers).await.map_err(|failure| {
            if failure == AuthFailure::Unauthenticated {
                self.parts.metrics.auth_refused();
                if let Some(throttle) = &self.parts.refused_credentials {
                    throttle.event();
                }
            }
            Refused::auth(failure)
        })
    }

    /// Before step 5, and again once there is a call: no more is made for a caller that does not take what it has.
    fn room(&self, caller: &Arc<str>) -> Result<(), Refused> {
        self.unread.room(caller).map_err(|refusal| Refused::marked(&refusal))
    }

    /// Step 5.
    fn slot(&self, caller: &Arc<str>) -> Result<DecodeSlot, Refused> {
        self.slots.acquire(caller).map_err(|refusal| Refused::marked(&refusal))
    }

    async fn connect(&self, codec: Codec, message: &[u8], call: Call) -> Result<Answered, Refused> {
        let reached = call.reached();
        let response = match self.rpc.call(codec, message, call).await {
            Ok(body) => answer::content(codec.content_type(), body),
            Err(error) if reached.get() => answer::error_response(&error),
            Err(error) => return Err(Refused::undecodable(error)),
        };
        Ok(Answered { response, mark: None })
    }

    async fn grpc(&self, parts: request::Parts, message: Bytes, call: Call) -> Answered {
        let reached = call.reached();
        let (head, body) = self.rpc.grpc(parts, message, call).await.into_parts();
        let response = Response::from_parts(head, EdgeBody::whole(body).await);
        let mark = (!reached.get()).then_some(Reason::Request);
        if mark.is_some() {
            self.parts.metrics.refused(mark, Code::InvalidArgument);
        }
        Answered { response, mark }
    }
}

/// Step 4: what the header states, without touching the body.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}
