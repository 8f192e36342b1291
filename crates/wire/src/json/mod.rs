//! ProtoJSON, both directions.
//!
//! Reading is two steps. [`scan`] walks the bytes strictly: duplicate names with a field's two spellings folded, lone
//! surrogates, nesting, marks, trailing data, and for known fields the kind of every value. Only then does the generated
//! decoder run. What that decoder does otherwise than the rules, measured against buffa 0.9.2, and where it is mended:
//!
//! | buffa 0.9.2 | mended by |
//! |---|---|
//! | keeps the last of two equal names, or of a field's two spellings, in messages with a oneof | the scanner |
//! | looks at nothing inside an unknown field: lone surrogates, duplicate names, deep nesting | the scanner |
//! | reads `"1.0"` and `"1e3"` as whole numbers inside a string | the scanner: a string holds a plain decimal |
//! | reads `"nan"` and other spellings Rust knows as doubles | the scanner: `NaN`, `Infinity`, `-Infinity`, or a number |
//! | names neither the field nor the limit in its errors | the scanner finds the fault first |
//! | bounds no memory on this path: three bytes of `{},` cost some seventy | the scanner: [`MAX_ELEMENTS`] |
//! | reads some doubles one unit in the last place off | the workspace builds serde_json with `float_roundtrip` |
//! | writes negative zero as `-0.0` | [`to_json`] writes `-0` |

mod error;
mod number;
mod scanner;
mod schema;
mod write;

pub use error::{JsonError, Problem, ScanError};
pub use scanner::{MAX_DEPTH, MAX_ELEMENTS, scan};
pub use schema::*;
pub use write::to_json;

use serde::de::DeserializeOwned;

/// A message that travels as JSON, with the place of its fields in the scanner's table.
pub trait JsonMessage: DeserializeOwned {
    /// What its object is read as.
    const ID: MessageId;
}

macro_rules! json_messages {
    ($($message:ident = $id:ident),* $(,)?) => {
        $(impl JsonMessage for crate::pb::$message { const ID: MessageId = $id; })*
    };
}

json_messages! {
    DescribeRequest = DESCRIBE_REQUEST,
    DescribeResponse = DESCRIBE_RESPONSE,
    RunRequest = RUN_REQUEST,
    RunResponse = RUN_RESPONSE,
    RunRecord = RUN_RECORD,
    OpenSessionRequest = OPEN_SESSION_REQUEST,
    OpenSessionResponse = OPEN_SESSION_RESPONSE,
    SessionRunRequest = SESSION_RUN_REQUEST,
    SessionRunResponse = SESSION_RUN_RESPONSE,
    CloseSessionRequest = CLOSE_SESSION_REQUEST,
    CloseSessionResponse = CLOSE_SESSION_RESPONSE,
}

/// Reads one message, strictly.
///
/// # Errors
/// The rule the body breaks, with the field and the byte.
pub fn from_json<M: JsonMessage>(body: &[u8]) -> Result<M, JsonError> {
    let text = scan(body, M::ID)?;
    serde_json::from_str(text).map_err(|error| JsonError::Decode(error.to_string()))
}

/// As [`from_json`], for an answer whose `ended` says how a session ended: a name this build does not know reads as a number
/// without a name, because a newer daemon's end is an end and no digest covers it.
///
/// # Errors
/// As [`from_json`].
pub fn from_json_with_end<M: JsonMessage>(body: &[u8]) -> Result<M, JsonError> {
    let decode = |error: serde_json::Error| JsonError::Decode(error.to_string());
    let text = scan(body, M::ID)?;
    serde_json::from_str(text).or_else(|error| {
        let mut value: serde_json::Value = serde_json::from_str(text).map_err(decode)?;
        match value.get_mut("ended") {
            Some(end @ serde_json::Value::String(_)) => *end = i32::MAX.into(),
            _ => return Err(decode(error)),
        }
        serde_json::from_value(value).map_err(decode)
    })
}

#[cfg(test)]
mod tests;
