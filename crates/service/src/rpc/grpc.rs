//! gRPC and gRPC-Web: the RPC library frames, compresses and writes trailers; the message goes to [`super::call_on`].

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::dispatcher::{RequestStream, StreamingResult, UnaryResult};
use connectrpc::{
    CodecFormat, CompressionPolicy, CompressionProvider, CompressionRegistry, ConnectError, ConnectRpcBody,
    ConnectRpcService, Dispatcher, EncodedBody, Limits, MethodDescriptor, Payload, RequestContext,
};
use http::{Request, Response, request};
use http_body_util::Full;
use parking_lot::Mutex;
use plimsoll_core::Code;
use plimsoll_core::limits::MAX_REQUEST_BYTES;
use plimsoll_wire::http::{Procedure, SERVICE_PATH};
use tower_service::Service as _;

use super::error::connect_error;
use super::{Call, Codec, before_handler, call_on};
use crate::edge::{GunzipFault, gunzip};
use crate::handler::Handler;

/// Envelope in front of a message: one flag byte and four of length.
const ENVELOPE_BYTES: usize = 5;

/// Hands decompressed messages to the procedures.
pub(super) struct GrpcDispatcher {
    handler: Arc<dyn Handler>,
}

/// The call, from the edge through the library to the dispatcher. Taken once.
#[derive(Clone)]
struct Carried {
    call: Arc<Mutex<Option<Call>>>,
    flags_are_known: bool,
}

pub(super) fn service(dispatcher: GrpcDispatcher) -> ConnectRpcService<GrpcDispatcher> {
    let limits = Limits::default()
        .with_max_request_body_size(MAX_REQUEST_BYTES + ENVELOPE_BYTES)
        .with_max_message_size(MAX_REQUEST_BYTES);
    ConnectRpcService::new(dispatcher)
        .with_limits(limits)
        .with_compression(CompressionRegistry::new().register(Gzip))
        // Always correct, and the same on every protocol we serve.
        .with_compression_policy(CompressionPolicy::disabled())
}

/// Whether every envelope's flag byte is 0 or 1 (compressed): the others are reserved, and a reader that passed over them
/// would take a message for something it is not.
fn flags_are_known(body: &[u8]) -> bool {
    let mut rest = body;
    while let Some((head, after)) = rest.split_first_chunk::<ENVELOPE_BYTES>() {
        let [flags, length @ ..] = *head;
        if flags > 1 {
            return false;
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        rest = after.get(length..).unwrap_or_default();
    }
    true
}

/// Answers one gRPC or gRPC-Web request whose body has been read.
pub(super) async fn answer(
    mut service: ConnectRpcService<GrpcDispatcher>,
    parts: request::Parts,
    body: Bytes,
    call: Call,
) -> Response<ConnectRpcBody> {
    let carried = Carried {
        call: Arc::new(Mutex::new(Some(call))),
        flags_are_known: flags_are_known(&body),
    };
    let mut request = Request::from_parts(parts, Full::new(body));
    request.extensions_mut().insert(carried);
    match service.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

impl GrpcDispatcher {
    pub(super) fn new(handler: Arc<dyn Handler>) -> Self {
        Self { handler }
    }

    fn unsupported(path: &str) -> ConnectError {
        connect_error(&before_handler(
            Code::Unimplemented,
            format!("{path} is not a procedure of one request and one answer"),
        ))
    }
}

impl Dispatcher for GrpcDispatcher {
    fn lookup(&self, path: &str) -> Option<MethodDescriptor> {
        let name = path.strip_prefix(SERVICE_PATH.trim_start_matches('/'))?;
        Procedure::from_name(name).map(|_| MethodDescriptor::unary(false))
    }

    fn call_unary(&self, path: &str, ctx: RequestContext, request: Payload, format: CodecFormat) -> UnaryResult {
        let carried = ctx.extensions().get::<Carried>();
        if carried.is_some_and(|carried| !carried.flags_are_known) {
            let error = connect_error(&before_handler(
                Code::InvalidArgument,
                "a frame's flag byte is neither 0 nor 1 (compressed); the others are reserved",
            ));
            return Box::pin(std::future::ready(Err(error)));
        }
        let Some(call) = carried.and_then(|carried| carried.call.lock().take()) else {
            let error = Self::unsupported(path);
            return Box::pin(std::future::ready(Err(error)));
        };
        let handler = Arc::clone(&self.handler);
        Box::pin(async move {
            let codec = match format {
                CodecFormat::Json => Codec::Json,
                _ => Codec::Proto,
            };
            let message = request.encoded()?;
            match call_on(&handler, codec, &message, call).await {
                Ok(body) => Ok(connectrpc::Response::new(EncodedBody::Contiguous(body))),
                Err(error) => Err(connect_error(&error)),
            }
        })
    }

    fn call_server_streaming(&self, path: &str, _: RequestContext, _: Bytes, _: CodecFormat) -> StreamingResult {
        Box::pin(std::future::ready(Err(Self::unsupported(path))))
    }

    fn call_client_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> UnaryResult {
        Box::pin(std::future::ready(Err(Self::unsupported(path))))
    }

    fn call_bidi_streaming(&self, path: &str, _: RequestContext, _: RequestStream, _: CodecFormat) -> StreamingResult {
        Box::pin(std::future::ready(Err(Self::unsupported(path))))
    }
}

/// Reads gzip by the edge's own rules: one member, nothing behind it, bounded.
struct Gzip;

impl CompressionProvider for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    /// Never asked: the policy is off. Answering uncompressed is always correct, but not under this name.
    fn compress(&self, _: &[u8]) -> Result<Bytes, ConnectError> {
        Err(connect_error(&before_handler(
            Code::Unimplemented,
            "answers are not compressed",
        )))
    }

    fn decompressor<'a>(&self, data: &'a [u8]) -> Result<Box<dyn std::io::Read + 'a>, ConnectError> {
        Ok(Box::new(flate2::bufread::GzDecoder::new(data)))
    }

    fn decompress_with_limit(&self, data: &[u8], _: usize) -> Result<Bytes, ConnectError> {
        gunzip(data).map_err(|fault| {
            connect_error(&match fault {
                GunzipFault::TooLarge => before_handler(
                    Code::ResourceExhausted,
                    "the message is over 8 MiB (8388608 bytes) decompressed; send a smaller one",
                ),
                GunzipFault::Malformed => {
                    before_handler(Code::InvalidArgument, "the message is not exactly one gzip member")
                }
            })
        })
    }
}
