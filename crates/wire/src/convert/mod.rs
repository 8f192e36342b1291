//! Between wire messages and the types of `core` and `record`, both ways: the daemon reads requests and writes answers,
//! a client does the reverse. Nothing here checks, clamps or repairs; digests cover what travelled.

mod answer;
mod describe;
mod record;
mod request;
mod session;

pub use describe::{describe_response, describe_with_sessions};

use plimsoll_core::RunRequest;

use crate::json::{JsonError, from_json};
use crate::pb;

/// A binary message that does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a message of the schema: {0}")]
pub struct BinaryError(String);

/// Reads one binary message. Nesting is bounded by 64 levels, list elements by 32 MiB of memory and unknown fields by
/// 10 000, because a few bytes on the wire become dozens in memory.
///
/// # Errors
/// Truncation, a wrong wire type of a known field, a string that is not UTF-8, or one of the bounds.
pub fn from_binary<M: buffa::Message>(body: &[u8]) -> Result<M, BinaryError> {
    buffa::DecodeOptions::new()
        .with_recursion_limit(64)
        .with_unknown_field_limit(10_000)
        .decode_from_slice(body)
        .map_err(|error| BinaryError(error.to_string()))
}

/// Writes one binary message, fields in ascending order.
pub fn to_binary<M: buffa::Message>(message: &M) -> Vec<u8> {
    message.encode_to_vec()
}

/// A run request from a JSON body.
///
/// # Errors
/// The rule of the strict scanner the body breaks.
pub fn decode_run_json(body: &[u8]) -> Result<RunRequest, JsonError> {
    from_json::<pb::RunRequest>(body).map(Into::into)
}

/// A run request from a binary body; zero bytes are the default message.
///
/// # Errors
/// When the body is no such message.
pub fn decode_run_binary(body: &[u8]) -> Result<RunRequest, BinaryError> {
    from_binary::<pb::RunRequest>(body).map(Into::into)
}

#[cfg(test)]
mod tests;
