//! Details by hand: a detail that is not exactly what it should be states nothing.
//!
//! The generated decoder is not used here because it is more forgiving in places (it accepts a known field of another
//! wire type as unknown) and less in others; what a mark says must not depend on a library's taste.

use plimsoll_record::RunRecord;

/// The three details of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DetailKind {
    /// Nothing of the call ran.
    NotDispatched,
    /// The session had ended.
    SessionEnded,
    /// The record of a session call that may have run.
    UnansweredCall,
}

impl DetailKind {
    /// The full message name.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::NotDispatched => "plimsoll.v1.NotDispatched",
            Self::SessionEnded => "plimsoll.v1.SessionEnded",
            Self::UnansweredCall => "plimsoll.v1.UnansweredCall",
        }
    }

    /// The detail a `type` names; anything before a `/` is ignored.
    pub fn from_type(text: &str) -> Option<Self> {
        let name = text.rsplit('/').next().unwrap_or(text);
        [Self::NotDispatched, Self::SessionEnded, Self::UnansweredCall]
            .into_iter()
            .find(|kind| kind.type_name() == name)
    }
}

/// The reason number of a `NotDispatched`; 0 when it states none. `None`: undecodable.
pub fn decode_not_dispatched(bytes: &[u8]) -> Option<i32> {
    let mut reason = 0;
    fields(bytes, |number, value| {
        if number == 1 {
            reason = value.number()?;
        }
        Some(())
    })?;
    Some(reason)
}

/// The end number and text of a `SessionEnded`. `None`: undecodable.
pub fn decode_session_ended(bytes: &[u8]) -> Option<(i32, String)> {
    let mut ended = (0, String::new());
    fields(bytes, |number, value| {
        match number {
            1 => ended.0 = value.number()?,
            2 => ended.1 = value.text()?,
            _ => {}
        }
        Some(())
    })?;
    Some(ended)
}

/// The record of an `UnansweredCall`. `None`: undecodable, or without a record.
pub fn decode_unanswered(bytes: &[u8]) -> Option<RunRecord> {
    let mut record = None;
    fields(bytes, |number, value| {
        if number == 1 {
            record = Some(decode_record(value.bytes()?)?);
        }
        Some(())
    })?;
    record
}

fn decode_record(bytes: &[u8]) -> Option<RunRecord> {
    let mut record = RunRecord::default();
    fields(bytes, |number, value| {
        match number {
            1 => record.version = u32::try_from(value.varint()? & u64::from(u32::MAX)).ok()?,
            2 => record.request_sha256 = value.text()?,
            3 => record.result_sha256 = value.text()?,
            4 => record.provider = value.text()?,
            5 => record.isolation = value.text()?,
            6 => record.environment = value.text()?,
            7 => record.policy = value.text()?,
            8 => record.started_unix_ms = value.varint()?.cast_signed(),
            9 => record.ended_unix_ms = value.varint()?.cast_signed(),
            10 => record.session = value.text()?,
            11 => record.sequence = value.varint()?,
            12 => record.previous_sha256 = value.text()?,
            13 => record.record_sha256 = value.text()?,
            14 => record.software_identity = value.text()?,
            15 => record.software_rule_id = value.text()?,
            16 => record.unanswered = value.text()?,
            17 => record.instance = value.text()?,
            _ => {}
        }
        Some(())
    })?;
    Some(record)
}

/// A field's value by wire type.
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Value<'a> {
    fn varint(&self) -> Option<u64> {
        match self {
            Self::Varint(value) => Some(*value),
            Self::Bytes(_) | Self::Fixed => None,
        }
    }

    /// An `int32` or enum: the low 32 bits of the varint.
    fn number(&self) -> Option<i32> {
        u32::try_from(self.varint()? & u64::from(u32::MAX))
            .ok()
            .map(u32::cast_signed)
    }

    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Varint(_) | Self::Fixed => None,
        }
    }

    fn text(&self) -> Option<String> {
        str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }
}

/// Hands every field to `take`. `None`: truncated, an overrun, a group, field number 0, an overlong varint, or refused.
fn fields<'a>(mut rest: &'a [u8], mut take: impl FnMut(u64, &Value<'a>) -> Option<()>) -> Option<()> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        // Field numbers have 29 bits.
        if number == 0 || number >= 1 << 29 {
            return None;
        }
        let value = match wire_type {
            0 => Value::Varint(varint(&mut rest)?),
            1 => split(&mut rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(split(&mut rest, length)?)
            }
            5 => split(&mut rest, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        take(number, &value)?;
    }
    Some(())
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

/// At most ten bytes and 64 bits.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for index in 0..10 {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
