//! An error answer as a client reads it, before anything is made of it.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use plimsoll_core::{Code, SessionEnd, SessionEnded};
use plimsoll_record::RunRecord;
use serde_json::Value;

use super::detail::{DetailKind, decode_not_dispatched, decode_session_ended, decode_unanswered};

const ANY_PADDING: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// What an answer other than 200 states. Whether any of it may be believed beyond code and message is the caller's to
/// decide: only a bound answer's mark counts.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteError {
    /// The code of the body, or the one its HTTP status stands for.
    pub code: Code,
    /// The message of the body, or `HTTP <status>`.
    pub message: String,
    /// The number of the first decodable `NotDispatched`; 0 and unknown numbers are marks too.
    pub not_dispatched: Option<i32>,
    /// The first decodable `SessionEnded`.
    pub session_ended: Option<SessionEnded>,
    /// The first decodable `UnansweredCall`'s record.
    pub unanswered: Option<RunRecord>,
}

impl RemoteError {
    /// Reads an answer that is not 200.
    pub fn parse(status: u16, body: &[u8]) -> Self {
        let object = match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => object,
            _ => serde_json::Map::new(),
        };
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let code = text("code")
            .and_then(Code::from_wire)
            .unwrap_or_else(|| code_of_status(status));
        let message = text("message")
            .filter(|text| !text.is_empty())
            .map_or_else(|| format!("HTTP {status}"), str::to_owned);
        let mut error = Self {
            code,
            message,
            not_dispatched: None,
            session_ended: None,
            unanswered: None,
        };
        for detail in object.get("details").and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| detail.get(name).and_then(Value::as_str);
            let Some((kind, value)) = field("type").zip(field("value")) else {
                continue;
            };
            if let Some((kind, value)) = DetailKind::from_type(kind).zip(decode_base64(value)) {
                error.take_detail(kind, &value);
            }
        }
        error
    }

    /// Takes one detail; the first of each kind that decodes wins.
    pub fn take_detail(&mut self, kind: DetailKind, value: &[u8]) {
        match kind {
            DetailKind::NotDispatched => self.not_dispatched = self.not_dispatched.or(decode_not_dispatched(value)),
            DetailKind::SessionEnded => {
                if self.session_ended.is_none() {
                    self.session_ended = decode_session_ended(value).map(|(number, detail)| SessionEnded {
                        end: SessionEnd::from_number(number),
                        detail,
                    });
                }
            }
            DetailKind::UnansweredCall => {
                if self.unanswered.is_none() {
                    self.unanswered = decode_unanswered(value);
                }
            }
        }
    }
}

/// Reading a status without a usable Connect body.
const fn code_of_status(status: u16) -> Code {
    match status {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// Standard or URL-safe, padded or not.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}
