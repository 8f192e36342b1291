//! The one encoding of bodies: MessagePack with field names, byte strings as they are, unknown fields refused.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A body that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The value cannot be encoded.
    #[error("message cannot be encoded: {0}")]
    Encode(#[source] rmp_serde::encode::Error),
    /// The bytes are not this message: broken, a field missing, or a field that this version does not know.
    #[error("message cannot be decoded: {0}")]
    Decode(#[source] rmp_serde::decode::Error),
    /// Bytes follow the message.
    #[error("{0} bytes follow the message; nothing may")]
    Trailing(usize),
    /// No message of this direction has this letter.
    #[error("frame kind {0:?} is not one of this version's")]
    Kind(char),
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    rmp_serde::to_vec_named(value).map_err(CodecError::Encode)
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    // Over a reader and not over the slice: only that way tells what it left.
    let mut reader = rmp_serde::Deserializer::new(body);
    let value = T::deserialize(&mut reader).map_err(CodecError::Decode)?;
    match reader.get_ref().len() {
        0 => Ok(value),
        left => Err(CodecError::Trailing(left)),
    }
}
