//! From a message's bytes to an answer's bytes, the same for all four protocols.
//!
//! Connect is served by the edge and this module alone; gRPC and gRPC-Web are framed by the RPC library, which hands the
//! message inside the envelope to the very same [`Rpc::call`]. A message is therefore decoded in one place, and "the
//! handler was reached" has one meaning.

mod error;
mod grpc;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use connectrpc::{ConnectRpcBody, ConnectRpcService};
use http::{Response, request};
use plimsoll_core::{CloseRequest, Fault, OpenRequest, Refusal, RunError, RunRequest, SessionRunRequest};
use plimsoll_sandbox::Received;
use plimsoll_wire::http::{JSON, PROTO, Procedure, SCOPE_RUN};
use plimsoll_wire::json::{JsonMessage, from_json, to_json};
use plimsoll_wire::{ErrorAnswer, describe_with_sessions, from_binary, pb, to_binary};
use tokio_util::sync::CancellationToken;

pub(crate) use self::error::{before_handler, refused};
use self::error::{failed, internal};
use self::grpc::GrpcDispatcher;
use crate::auth::Principal;
use crate::edge::DecodeSlot;
use crate::handler::{CallContext, Handler, SessionError, op_of};

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Json,
    Proto,
}

impl Codec {
    /// The Connect content type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Proto => PROTO,
        }
    }
}

/// How a call is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcProtocol {
    Connect,
    Grpc,
    GrpcWeb,
}

/// One call that passed the edge.
#[derive(Debug)]
pub(crate) struct Call {
    procedure: Procedure,
    principal: Principal,
    deadline: Option<Instant>,
    slot: DecodeSlot,
    reached: Reached,
}

/// Whether the decoded request reached a procedure's handler. From then on no header marks the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached(Arc<AtomicBool>);

impl Reached {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Call {
    pub(crate) fn new(procedure: Procedure, principal: Principal, deadline: Option<Instant>, slot: DecodeSlot) -> Self {
        Self {
            procedure,
            principal,
            deadline,
            slot,
            reached: Reached::default(),
        }
    }

    /// The flag, to be read once the call has been answered.
    pub(crate) fn reached(&self) -> Reached {
        self.reached.clone()
    }
}

/// The procedures. Clones share the handler.
#[derive(Clone)]
pub(crate) struct Rpc {
    handler: Arc<dyn Handler>,
    grpc: ConnectRpcService<GrpcDispatcher>,
}

/// A message of one of the procedures.
enum Decoded {
    Run(RunRequest),
    Describe,
    Open(OpenRequest),
    SessionRun(SessionRunRequest),
    Close(CloseRequest),
}

impl Decoded {
    /// What the call is called in the log.
    fn op(&self) -> &'static str {
        match self {
            Self::Run(request) => op_of(request.payload.as_ref(), "run"),
            Self::Describe => "describe",
            Self::Open(_) => "open",
            Self::SessionRun(request) => op_of(request.run.payload.as_ref(), "session"),
            Self::Close(_) => "close",
        }
    }
}

impl Rpc {
    pub(crate) fn new(handler: Arc<dyn Handler>) -> Self {
        let grpc = grpc::service(GrpcDispatcher::new(Arc::clone(&handler)));
        Self { handler, grpc }
    }

    /// Decodes a message, runs its procedure and encodes the answer. A panic on the way is an unmarked internal error.
    pub(crate) async fn call(&self, codec: Codec, message: &[u8], call: Call) -> Result<Bytes, ErrorAnswer> {
        call_on(&self.handler, codec, message, call).await
    }

    /// The same for a call framed as gRPC or gRPC-Web; the whole body has been read.
    pub(crate) async fn grpc(&self, parts: request::Parts, body: Bytes, call: Call) -> Response<ConnectRpcBody> {
        grpc::answer(self.grpc.clone(), parts, body, call).await
    }
}

/// See [`Rpc::call`].
async fn call_on(handler: &Arc<dyn Handler>, codec: Codec, message: &[u8], call: Call) -> Result<Bytes, ErrorAnswer> {
    contained(async {
        let decoded = decode(call.procedure, codec, message)?;
        procedure(handler, codec, call, decoded).await
    })
    .await
    .unwrap_or_else(|_| {
        Err(internal(
            &Fault::internal("a call panicked outside its provider"),
            &**handler,
        ))
    })
}

/// The procedures themselves. The first line is where the handler is reached: the decode slot is given back, and from
/// here on details speak instead of headers.
async fn procedure(
    handler: &Arc<dyn Handler>,
    codec: Codec,
    Call {
        principal,
        deadline,
        slot,
        reached,
        ..
    }: Call,
    decoded: Decoded,
) -> Result<Bytes, ErrorAnswer> {
    reached.set();
    drop(slot);
    if !principal.allows(SCOPE_RUN) {
        let refusal = scope_refusal();
        handler.refused(principal.key(), decoded.op(), &refusal);
        return Err(refused(&refusal));
    }
    let context = CallContext {
        principal,
        received: Received::now(),
        deadline,
        cancelled: CancellationToken::new(),
    };
    let faulty = |error: RunError| failed(&error, &**handler);
    match decoded {
        Decoded::Describe => {
            let terms = handler.session_terms();
            Ok(encode(
                codec,
                &describe_with_sessions(&handler.describe(), terms.as_ref()),
            ))
        }
        Decoded::Run(request) => {
            let answer = handler.run(context, request).await.map_err(faulty)?;
            Ok(encode(codec, &pb::RunResponse::from(answer)))
        }
        Decoded::Open(request) => {
            let opened = handler.open_session(context, request).await.map_err(faulty)?;
            Ok(encode(codec, &pb::OpenSessionResponse::from(opened)))
        }
        Decoded::SessionRun(request) => match handler.session_run(context, request).await {
            Ok(answer) => Ok(encode(codec, &pb::SessionRunResponse::from(answer))),
            Err(SessionError { error, unanswered }) => {
                let answer = faulty(error);
                Err(match unanswered {
                    Some(record) => answer.with_unanswered(*record),
                    None => answer,
                })
            }
        },
        Decoded::Close(request) => {
            let closed = handler.close_session(context, request).await.map_err(faulty)?;
            Ok(encode(codec, &pb::CloseSessionResponse::from(closed)))
        }
    }
}

/// The refusal of a caller whose token does not carry the scope.
pub(crate) fn scope_refusal() -> Refusal {
    Refusal::permission("the caller's token does not carry the scope code:run; ask the operator for it")
}

fn decode(procedure: Procedure, codec: Codec, message: &[u8]) -> Result<Decoded, ErrorAnswer> {
    Ok(match procedure {
        Procedure::Run => Decoded::Run(read::<pb::RunRequest>(codec, message)?.into()),
        Procedure::Describe => {
            read::<pb::DescribeRequest>(codec, message)?;
            Decoded::Describe
        }
        Procedure::OpenSession => Decoded::Open(read::<pb::OpenSessionRequest>(codec, message)?.into()),
        Procedure::SessionRun => Decoded::SessionRun(read::<pb::SessionRunRequest>(codec, message)?.into()),
        Procedure::CloseSession => Decoded::Close(read::<pb::CloseSessionRequest>(codec, message)?.into()),
    })
}

fn read<M: JsonMessage + buffa::Message>(codec: Codec, message: &[u8]) -> Result<M, ErrorAnswer> {
    let read = match codec {
        Codec::Json => from_json(message).map_err(|error| error.to_string()),
        Codec::Proto => from_binary(message).map_err(|error| error.to_string()),
    };
    read.map_err(|problem| before_handler(plimsoll_core::Code::InvalidArgument, problem))
}

fn encode<M: serde::Serialize + buffa::Message>(codec: Codec, message: &M) -> Bytes {
    match codec {
        Codec::Json => to_json(message),
        Codec::Proto => to_binary(message),
    }
    .into()
}

/// Polls a future and turns its panic into a value, so that one call's fault ends neither its connection nor the
/// connection's other calls.
fn contained<F: Future>(future: F) -> Contained<F> {
    Contained { future }
}

pin_project_lite::pin_project! {
    struct Contained<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
