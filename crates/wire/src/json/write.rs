//! Writing ProtoJSON.

use std::io;

use serde::Serialize;

/// Compact JSON, except that negative zero is written `-0`.
struct ProtoFormatter;

impl serde_json::ser::Formatter for ProtoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value == 0.0 && value.is_sign_negative() {
            return writer.write_all(b"-0");
        }
        serde_json::ser::CompactFormatter.write_f64(writer, value)
    }
}

/// Writes a generated message as ProtoJSON. Bytes are base64, 64-bit integers strings, enums names, zero values absent.
///
/// A generated message holds nothing that JSON cannot say, so this fails for none; the empty object stands for the case
/// that cannot happen.
pub fn to_json<M: Serialize>(message: &M) -> Vec<u8> {
    let mut body = Vec::with_capacity(512);
    let mut serializer = serde_json::Serializer::with_formatter(&mut body, ProtoFormatter);
    if message.serialize(&mut serializer).is_err() {
        body.clear();
        body.extend_from_slice(b"{}");
    }
    body
}
