//! What a guest gets. A refusal is one fixed sentence: the reason, the rule, what to do. It never repeats what was sent.

use bytes::Bytes;
use http::HeaderValue;

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAnswer {
    /// HTTP status, 100 to 599.
    pub status: u16,
    /// The `Content-Type` to hand on; nothing else of an answer's head reaches the guest.
    pub content_type: HeaderValue,
    /// At most [`MAX_RESPONSE_BODY`](crate::MAX_RESPONSE_BODY) bytes.
    pub body: Bytes,
}

impl BrokerAnswer {
    /// For an adapter that has no broker to ask: the run has no grant, or none right now.
    pub const fn no_grant() -> Self {
        NO_GRANT.answer()
    }
}

/// A refusal, or a failure that is told like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    status: u16,
    text: &'static str,
}

impl Refused {
    const fn new(status: u16, text: &'static str) -> Self {
        Self { status, text }
    }

    pub(crate) const fn answer(self) -> BrokerAnswer {
        BrokerAnswer {
            status: self.status,
            content_type: HeaderValue::from_static("text/plain; charset=utf-8"),
            body: Bytes::from_static(self.text.as_bytes()),
        }
    }
}

pub(crate) const NO_GRANT: Refused = Refused::new(
    503,
    "no grant: this run may call no API; run it with a grant to allow calls\n",
);

pub(crate) const ENDED: Refused = Refused::new(
    503,
    "grant ended: calls are allowed only while the run lasts; make them before the program ends\n",
);

/// Sent when the end of the run cut a call short that may have reached the API.
pub(crate) const CUT_SHORT: Refused = Refused::new(
    502,
    "no answer: the run ended during this call, which may have reached the API; wait for calls before the program ends\n",
);

pub(crate) const BUSY: Refused = Refused::new(
    429,
    "too many calls at once: a run may have 16 calls in flight; wait for some before starting more\n",
);

pub(crate) const BUDGET: Refused = Refused::new(
    429,
    "call budget used up: every call counts, refused ones too; make fewer calls or ask for a larger max_calls\n",
);

pub(crate) const ROUTE: Refused = Refused::new(
    403,
    "route not permitted: method and path must match an entry of the grant, without query or escapes; call a listed route\n",
);

pub(crate) const ROUTE_CAP: Refused = Refused::new(
    429,
    "route cap used up: the grant limits how often this route may be called; make fewer calls of it\n",
);

pub(crate) const SHED: Refused = Refused::new(
    503,
    "API paused: it answered 429 or 503, so calls wait at least until the time it asked for; try again later\n",
);

pub(crate) const BODY_TOO_LARGE: Refused = Refused::new(
    413,
    "request body refused: it must arrive whole and hold at most 1 MiB; send less\n",
);

pub(crate) const NO_ANSWER: Refused = Refused::new(
    502,
    "no answer: the API could not be reached or broke the connection; try again if repeating the call does no harm\n",
);

pub(crate) const TIMEOUT: Refused = Refused::new(
    502,
    "no answer in time: the API must answer within the time the grant allows; try again if repeating the call does no harm\n",
);

pub(crate) const ADDRESS: Refused = Refused::new(
    502,
    "address refused: the API's name leads to an address the grant does not allow; ask the operator to check the profile\n",
);

pub(crate) const ANSWER_TOO_LARGE: Refused = Refused::new(
    502,
    "answer refused: an answer may hold at most 4 MiB and is never cut; ask the API for less\n",
);

pub(crate) const ANSWER_BROKEN: Refused = Refused::new(
    502,
    "answer refused: it was not valid HTTP or ended early; try again if repeating the call does no harm\n",
);

pub(crate) const ANSWER_ECHO: Refused = Refused::new(
    502,
    "answer refused: it repeats the credential of the call; tell the operator that this API echoes it\n",
);

/// Refusals of a socket's own. What they refuse never reaches a broker, so it counts nowhere.
pub(crate) const NOT_PLAIN: Refused = Refused::new(
    400,
    "request refused: it must be plain HTTP/1.1 with one body length and no upgrade; call through the grant's client\n",
);

pub(crate) const HEAD_TOO_LARGE: Refused = Refused::new(
    431,
    "request refused: request line and headers may hold 16 KiB and 100 lines; send fewer and shorter headers\n",
);

pub(crate) const HEAD_LATE: Refused = Refused::new(
    408,
    "request refused: request line and headers must arrive within 5 seconds; send them at once\n",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_with_reason_rule_and_remedy() {
        for refused in [
            NO_GRANT,
            ENDED,
            CUT_SHORT,
            BUSY,
            BUDGET,
            ROUTE,
            ROUTE_CAP,
            SHED,
            BODY_TOO_LARGE,
            NO_ANSWER,
            TIMEOUT,
            ADDRESS,
            ANSWER_TOO_LARGE,
            ANSWER_BROKEN,
            ANSWER_ECHO,
            NOT_PLAIN,
            HEAD_TOO_LARGE,
            HEAD_LATE,
        ] {
            let text = refused.text.strip_suffix('\n').unwrap();
            assert!(!text.contains('\n') && text.len() < 140, "{text}");
            let (reason, rest) = text.split_once(": ").unwrap();
            let (rule, remedy) = rest.split_once("; ").unwrap();
            assert!(!reason.is_empty() && !rule.is_empty() && !remedy.is_empty());
            assert_eq!(refused.answer().content_type, "text/plain; charset=utf-8");
        }
    }
}
