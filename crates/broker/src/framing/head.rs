//! The head of a request. Whatever two readers could read in two ways is refused, and so is every change of protocol.

use bytes::Bytes;
use httparse::{EMPTY_HEADER, Header, Status};
use memchr::{memchr, memmem, memrchr};

use super::body::Framing;
use crate::answer::{HEAD_TOO_LARGE, NOT_PLAIN, Refused};

/// Longest head: request line and headers, with the empty line.
pub(super) const MAX_HEAD: usize = 16 << 10;

/// Header lines of one request. Node sends five.
const MAX_HEADERS: usize = 100;

/// A request as far as it matters.
#[derive(Debug)]
pub(super) struct Head {
    /// A token, in the case it came in.
    pub(super) method: Bytes,
    /// Any bytes but a line feed: the broker decides.
    pub(super) target: Bytes,
    pub(super) framing: Framing,
    /// The guest waits for a go-ahead before it sends the body.
    pub(super) wants_continue: bool,
    /// Another request may follow on the connection.
    pub(super) keep_alive: bool,
}

/// Looks for the end of a head while it arrives.
#[derive(Debug, Default)]
pub(super) struct Scan {
    seen: usize,
}

impl Scan {
    /// Where the head at the start of `buffer` ends, once it has.
    pub(super) fn end(&mut self, buffer: &[u8]) -> Result<Option<usize>, Refused> {
        while let Some(found) = memchr(b'\n', &buffer[self.seen..]) {
            let feed = self.seen + found;
            self.seen = feed + 1;
            // A bare line feed ends a line for some readers only.
            let line = buffer[..feed].strip_suffix(b"\r").ok_or(NOT_PLAIN)?;
            if line.is_empty() || line.ends_with(b"\n") {
                return if self.seen <= MAX_HEAD {
                    Ok(Some(self.seen))
                } else {
                    Err(HEAD_TOO_LARGE)
                };
            }
        }
        self.seen = buffer.len();
        if self.seen < MAX_HEAD {
            Ok(None)
        } else {
            Err(HEAD_TOO_LARGE)
        }
    }
}

impl Head {
    /// Reads a head that [`Scan`] found.
    pub(super) fn parse(head: &Bytes) -> Result<Self, Refused> {
        let end = memmem::find(head, b"\r\n").ok_or(NOT_PLAIN)?;
        let line = head.slice(..end);
        // From the first space to the last one: a space inside is part of the target, and makes it one that is refused.
        let (Some(first), Some(last)) = (memchr(b' ', &line), memrchr(b' ', &line)) else {
            return Err(NOT_PLAIN);
        };
        if first == last || !is_token(&line[..first]) {
            return Err(NOT_PLAIN);
        }
        let is_1_1 = match &line[last + 1..] {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            _ => return Err(NOT_PLAIN),
        };
        let mut slots = [EMPTY_HEADER; MAX_HEADERS];
        let headers = match httparse::parse_headers(&head[end + 2..], &mut slots) {
            Ok(Status::Complete((_, headers))) => headers,
            Err(httparse::Error::TooManyHeaders) => return Err(HEAD_TOO_LARGE),
            Ok(Status::Partial) | Err(_) => return Err(NOT_PLAIN),
        };
        let method = line.slice(..first);
        let keep_alive = is_1_1
            && !values(headers, "connection").any(|value| lists(value, b"close"))
            // The answers to these two have no end that every client sees.
            && !matches!(&*method, b"CONNECT" | b"HEAD");
        Ok(Self {
            method,
            target: line.slice(first + 1..last),
            framing: framing(headers, is_1_1)?,
            wants_continue: is_1_1
                && values(headers, "expect").any(|value| value.eq_ignore_ascii_case(b"100-continue")),
            keep_alive,
        })
    }
}

/// How the body is delimited; refuses what says it twice.
fn framing(headers: &[Header<'_>], is_1_1: bool) -> Result<Framing, Refused> {
    if values(headers, "upgrade").next().is_some() {
        return Err(NOT_PLAIN);
    }
    let mut codings = values(headers, "transfer-encoding");
    let mut lengths = values(headers, "content-length");
    match (codings.next(), codings.next(), lengths.next(), lengths.next()) {
        (None, _, None, _) => Ok(Framing::of_length(0)),
        (None, _, Some(length), None) => decimal(length).map(Framing::of_length).ok_or(NOT_PLAIN),
        (Some(coding), None, None, _) if is_1_1 && coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::chunked()),
        _ => Err(NOT_PLAIN),
    }
}

fn values<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

fn lists(value: &[u8], word: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
}

fn decimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Head, Refused> {
        let head = Bytes::copy_from_slice(head.as_bytes());
        let end = Scan::default().end(&head)?.unwrap();
        assert_eq!(end, head.len());
        Head::parse(&head)
    }

    #[test]
    fn the_target_is_taken_byte_for_byte() {
        for target in [
            "/v1/items/x",
            "/x#f",
            "/x?a=%2F",
            "http://h/x",
            "//",
            "",
            "has space",
            "/é\u{1}",
            "*",
            "/a HTTP/1.1",
        ] {
            let head = parse(&format!("gEt {target} HTTP/1.1\r\nHost: x\r\n\r\n")).unwrap();
            assert_eq!((&*head.method, &*head.target), (&b"gEt"[..], target.as_bytes()));
        }
    }

    #[test]
    fn a_head_that_reads_in_two_ways_is_refused() {
        for head in [
            "\r\n",
            "GET\r\n\r\n",
            "GET /\r\n\r\n",
            " GET / HTTP/1.1\r\n\r\n",
            "G\tT / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET / http/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET / HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET / HTTP/1.1\r\na: b\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\na: b\0c\r\n\r\n",
            "GET / HTTP/1.1\r\na: b\rContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
            "GET / HTTP/1.1\r\nUpgrade:\r\n\r\n",
        ] {
            assert_eq!(parse(head).unwrap_err(), NOT_PLAIN, "{head:?}");
        }
        for head in ["GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\nHost: x\n\r\n", "\n"] {
            assert_eq!(Scan::default().end(head.as_bytes()), Err(NOT_PLAIN), "{head:?}");
        }
    }

    #[test]
    fn a_head_has_a_largest_size_and_a_largest_number_of_lines() {
        let of = |size: usize| {
            let mut head = b"GET / HTTP/1.1\r\na: ".to_vec();
            head.resize(size - 4, b'x');
            head.extend_from_slice(b"\r\n\r\n");
            head
        };
        assert_eq!(Scan::default().end(&of(MAX_HEAD)), Ok(Some(MAX_HEAD)));
        assert_eq!(Scan::default().end(&of(MAX_HEAD + 1)), Err(HEAD_TOO_LARGE));
        assert_eq!(Scan::default().end(&[b'x'; MAX_HEAD]), Err(HEAD_TOO_LARGE));
        let lines = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert!(parse(&lines(MAX_HEADERS)).is_ok());
        assert_eq!(parse(&lines(MAX_HEADERS + 1)).unwrap_err(), HEAD_TOO_LARGE);
    }

    #[test]
    fn the_end_is_found_however_the_head_is_cut() {
        let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET ";
        let mut scan = Scan::default();
        for length in 0..27 {
            assert_eq!(scan.end(&head[..length]), Ok(None), "{length}");
        }
        assert_eq!(scan.end(&head[..27]), Ok(Some(27)));
    }

    #[test]
    fn a_connection_is_kept_unless_one_side_cannot() {
        let kept = |line: &str, header: &str| parse(&format!("{line}\r\n{header}\r\n\r\n")).unwrap().keep_alive;
        assert!(kept("GET / HTTP/1.1", "Host: x"));
        assert!(!kept("GET / HTTP/1.1", "Connection: TE, Close"));
        assert!(!kept("GET / HTTP/1.0", "Connection: keep-alive"));
        assert!(!kept("CONNECT h:1 HTTP/1.1", "Host: x"));
        assert!(!kept("HEAD / HTTP/1.1", "Host: x"));
    }
}
