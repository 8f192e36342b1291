//! The host side of a guest's host call: reads the request, asks whoever holds the grant, shapes the answer.
//! Nothing but method, path and body crosses; everything the guest sends is hostile.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The largest request: a 1 MiB body and 64 KiB for everything around it.
pub const MAX_REQUEST: usize = (1 << 20) + (64 << 10);

/// Deepest nesting of a request, its own object included. The body is handed on unread, so serde's bound does not see it.
const MAX_DEPTH: usize = 128;

/// What a guest asks for. Not yet checked against any grant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRequest<'a> {
    /// HTTP method as the guest wrote it.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// Path as the guest wrote it.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    /// JSON text of the body, byte for byte; absent and `null` are different things.
    #[serde(borrow, default, deserialize_with = "present")]
    pub body: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What the guest gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostResponse {
    /// HTTP status; outside 100..=599 the guest sees 500 with an empty body.
    pub status: u16,
    /// Body; larger than the guest's buffer, the guest sees 500 with an empty body.
    pub body: Bytes,
}

/// The answer of [`HostCalls::call`].
pub type HostFuture<'a> = Pin<Box<dyn Future<Output = HostResponse> + Send + 'a>>;

/// Answers the host calls of one run. The future is dropped when the run's deadline passes or its caller cancels.
pub trait HostCalls: Send + Sync + fmt::Debug {
    /// Answers one call.
    fn call<'a>(&'a self, request: HostRequest<'a>) -> HostFuture<'a>;
}

/// A request that was refused before anybody was asked: the status the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) u16);

impl Refused {
    /// The whole answer: like every refusal of a host call one line of reason, rule and remedy.
    pub(crate) fn answer(self) -> HostResponse {
        let text = match self.0 {
            413 => "request refused: it must not be empty, and its body may hold at most 1 MiB; send less\n",
            _ => {
                "request refused: it must be one JSON object of method, path and body; call through the grant's client\n"
            }
        };
        HostResponse {
            status: self.0,
            body: Bytes::from_static(text.as_bytes()),
        }
    }
}

/// Whether a request of this length may be read at all.
fn check_length(length: usize) -> Result<(), Refused> {
    if (1..=MAX_REQUEST).contains(&length) {
        Ok(())
    } else {
        Err(Refused(413))
    }
}

/// The bytes a guest points at, where they are in its memory.
pub(crate) fn slice(memory: &[u8], at: u32, length: u32) -> Option<&[u8]> {
    let start = at as usize;
    memory.get(start..start.checked_add(length as usize)?)
}

/// Takes the request that a guest points at: 413 for its length, 400 for one that is not in its memory.
pub(crate) fn copy_request(memory: &[u8], at: u32, length: u32) -> Result<Vec<u8>, Refused> {
    check_length(length as usize)?;
    slice(memory, at, length).map(<[u8]>::to_vec).ok_or(Refused(400))
}

/// Reads a request.
pub(crate) fn parse(bytes: &[u8]) -> Result<HostRequest<'_>, Refused> {
    // serde reads an array into a struct too, member by member; only an object is a request (found by fuzzing).
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refused(400));
    }
    let request = serde_json::from_slice(bytes).map_err(|_| Refused(400))?;
    if depth(bytes) > MAX_DEPTH {
        return Err(Refused(400));
    }
    Ok(request)
}

/// How deep a JSON text nests. The text is known to be JSON.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text) = (0_usize, 0, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                bytes.next();
            }
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Writes an answer into the guest's buffer and packs status and body length as the guest expects them. An answer outside the
/// contract, or for which the guest's memory has no room where it points, is a plain 500 and nothing is written.
pub(crate) fn deliver(memory: &mut [u8], at: u32, capacity: u32, response: HostResponse) -> i64 {
    let (packed, body) = shape(response, capacity as usize);
    let start = at as usize;
    let Some(target) = start.checked_add(body.len()).and_then(|end| memory.get_mut(start..end)) else {
        return pack(500, 0);
    };
    target.copy_from_slice(&body);
    packed
}

/// Packs status and body length, and makes an answer outside the contract a plain 500.
fn shape(response: HostResponse, capacity: usize) -> (i64, Bytes) {
    let HostResponse { status, body } = response;
    let inside = (100..=599).contains(&status) && body.len() <= capacity;
    let (status, body) = if inside { (status, body) } else { (500, Bytes::new()) };
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    (pack(status, length), body)
}

/// High half: status; low half: body length.
fn pack(status: u16, length: u32) -> i64 {
    i64::from(status) << 32 | i64::from(length)
}

#[cfg(test)]
mod tests {
    use super::{HostResponse, MAX_REQUEST, Refused, check_length, copy_request, deliver, pack, parse, shape};

    #[test]
    fn request_lengths_outside_the_limits_are_413() {
        assert_eq!(check_length(0), Err(Refused(413)));
        assert_eq!(check_length(1), Ok(()));
        assert_eq!(check_length(MAX_REQUEST), Ok(()));
        assert_eq!(MAX_REQUEST + 1, 1_114_113);
        assert_eq!(check_length(1_114_113), Err(Refused(413)));
    }

    #[test]
    fn a_request_that_is_not_in_the_guests_memory_is_400() {
        let memory = *b"0123456789";
        for (at, length, text) in [(0, 10, &b"0123456789"[..]), (9, 1, b"9"), (3, 4, b"3456")] {
            assert_eq!(copy_request(&memory, at, length).as_deref(), Ok(text));
        }
        for (at, length) in [(0, 11), (10, 1), (9, 2), (11, 1), (u32::MAX, 1), (u32::MAX, 10)] {
            assert_eq!(copy_request(&memory, at, length), Err(Refused(400)), "{at} {length}");
        }
        for (at, length) in [(0, 0), (u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
            assert_eq!(copy_request(&memory, at, length), Err(Refused(413)), "{at} {length}");
        }
    }

    #[test]
    fn an_answer_with_no_room_in_the_guests_memory_is_an_empty_500_and_writes_nothing() {
        let four = || HostResponse {
            status: 200,
            body: b"body"[..].into(),
        };
        let written = |at, capacity| {
            let mut memory = *b"----------";
            (deliver(&mut memory, at, capacity, four()), memory)
        };
        assert_eq!(written(0, 4), (pack(200, 4), *b"body------"));
        assert_eq!(written(6, u32::MAX), (pack(200, 4), *b"------body"));
        for (at, capacity) in [(7, 4), (10, 4), (11, 4), (u32::MAX, 4), (u32::MAX, u32::MAX), (0, 3)] {
            assert_eq!(written(at, capacity), (pack(500, 0), *b"----------"), "{at} {capacity}");
        }
    }

    #[test]
    fn a_refused_request_is_told_reason_rule_and_remedy_in_one_line() {
        for status in [400, 413] {
            let answer = Refused(status).answer();
            assert_eq!(answer.status, status);
            let text = std::str::from_utf8(&answer.body).unwrap().strip_suffix('\n').unwrap();
            let (reason, rest) = text.split_once(": ").unwrap();
            assert!(
                reason == "request refused" && rest.contains("; ") && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn the_body_is_kept_byte_for_byte() {
        let request = parse(br#" {"path":"/a\u0062", "method":"PUT", "body": { "b" : 1.0e+1, "a":[ ] } } "#).unwrap();
        assert_eq!((&*request.method, &*request.path), ("PUT", "/ab"));
        assert_eq!(request.body.unwrap().get(), r#"{ "b" : 1.0e+1, "a":[ ] }"#);
        assert_eq!(
            parse(br#"{"method":"GET","path":"/"}"#)
                .unwrap()
                .body
                .map(|body| body.get()),
            None
        );
        assert_eq!(
            parse(br#"{"method":"GET","path":"/","body":null}"#)
                .unwrap()
                .body
                .map(|body| body.get()),
            Some("null")
        );
    }

    #[test]
    fn anything_but_one_object_of_known_keys_is_400() {
        for bad in [
            &br#"{"method":"GET","path":"/x","z":1}"#[..],
            br#"{"method":"GET","path":"/x"} {}"#,
            br#"{"method":"GET","path":"/x","path":"/y"}"#,
            br#"{"method":"GET"}"#,
            br#"{"method":1,"path":"/x"}"#,
            br#"{"method":"GET","path":"/x","body":}"#,
            b"{\"method\":\"GET\",\"path\":\"\xff\"}",
            b"{\"method\":\"GET\",\"path\":\"/\",\"body\":\"\xff\"}",
            b"[]",
            br#"["GET","/x",null]"#,
            b"null",
            b" ",
        ] {
            assert_eq!(parse(bad).err(), Some(Refused(400)), "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_request_nests_128_deep_and_no_deeper() {
        let nested = |levels: usize| {
            let (open, close) = ("[{\"a\":".repeat(levels / 2), "}]".repeat(levels / 2));
            format!(r#"{{"method":"PUT","path":"/","body":{open}"\"[[[["{close}}}"#)
        };
        assert!(parse(nested(126).as_bytes()).is_ok(), "and one for the envelope");
        assert_eq!(parse(nested(128).as_bytes()).err(), Some(Refused(400)));
        let [fits, over] = [127, 128].map(|levels| {
            let body = "[".repeat(levels) + &"]".repeat(levels);
            format!(r#"{{"method":"PUT","path":"/","body":{body}}}"#)
        });
        assert!(parse(fits.as_bytes()).is_ok());
        assert_eq!(parse(over.as_bytes()).err(), Some(Refused(400)));
        let wide = format!(
            r#"{{"method":"PUT","path":"/","body":[{}]}}"#,
            vec!["[]"; 500].join(",")
        );
        assert!(parse(wide.as_bytes()).is_ok());
    }

    #[test]
    fn answers_outside_the_contract_become_an_empty_500() {
        let answer = |status, length: usize, capacity| {
            let (packed, body) = shape(
                HostResponse {
                    status,
                    body: vec![b'x'; length].into(),
                },
                capacity,
            );
            (packed, body.len())
        };
        assert_eq!(answer(200, 4, 4), (pack(200, 4), 4));
        assert_eq!(answer(100, 0, 4), (pack(100, 0), 0));
        assert_eq!(answer(599, 1, 4), (pack(599, 1), 1));
        assert_eq!(answer(200, 5, 4), (pack(500, 0), 0));
        assert_eq!(answer(99, 1, 4), (pack(500, 0), 0));
        assert_eq!(answer(600, 1, 4), (pack(500, 0), 0));
        assert_eq!(answer(0, 0, 4), (pack(500, 0), 0));
    }
}
