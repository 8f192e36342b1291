//! What the edge reads of the headers before the body: method, content type, versions, timeouts, encodings.

use std::time::Duration;

use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use plimsoll_core::Code;
use plimsoll_wire::http::{CONNECT_PROTOCOL_VERSION, CONNECT_TIMEOUT_MS, GRPC_TIMEOUT};

use super::answer::Refused;
use crate::rpc::{Codec, RpcProtocol};

/// `Accept-Post` of a 415: everything the allow-list lets through.
const ACCEPT_POST: &str = "application/json, application/proto, application/grpc, application/grpc+proto, \
                           application/grpc+json, application/grpc-web, application/grpc-web+proto, \
                           application/grpc-web+json";
const ACCEPT_POST_NAME: HeaderName = HeaderName::from_static("accept-post");

/// What the headers say about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyForm {
    pub(super) protocol: RpcProtocol,
    pub(super) codec: Codec,
    pub(super) gzip: bool,
    /// The caller's own deadline, from now.
    pub(super) timeout: Option<Duration>,
}

/// Reads the headers of a call whose caller is known.
pub(super) fn body_form(method: &Method, headers: &HeaderMap) -> Result<BodyForm, Refused> {
    if method != Method::POST {
        return Err(
            Refused::status(StatusCode::METHOD_NOT_ALLOWED, "procedures are called with POST")
                .with_header(ALLOW, HeaderValue::from_static("POST")),
        );
    }
    for name in [
        CONTENT_TYPE.as_str(),
        CONTENT_ENCODING.as_str(),
        CONNECT_PROTOCOL_VERSION,
        CONNECT_TIMEOUT_MS,
        GRPC_TIMEOUT,
    ] {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(Refused::invalid(format!(
                "the header {name} is sent more than once; send it once"
            )));
        }
    }
    let Some((protocol, codec)) = headers
        .get(CONTENT_TYPE)
        .and_then(|value| content_type(value.as_bytes()))
    else {
        return Err(Refused::status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content type is not served; see Accept-Post",
        )
        .with_header(ACCEPT_POST_NAME, HeaderValue::from_static(ACCEPT_POST)));
    };
    if headers
        .get(CONNECT_PROTOCOL_VERSION)
        .is_some_and(|version| version.as_bytes() != b"1")
    {
        return Err(Refused::invalid(
            "the header connect-protocol-version is not 1; send 1 or leave it out",
        ));
    }
    let timeout = match protocol {
        RpcProtocol::Connect => headers.get(CONNECT_TIMEOUT_MS).map(connect_timeout).transpose()?,
        RpcProtocol::Grpc | RpcProtocol::GrpcWeb => headers.get(GRPC_TIMEOUT).map(grpc_timeout).transpose()?,
    };
    let gzip = match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().trim_ascii()) {
        None => false,
        Some(name) if name.eq_ignore_ascii_case(b"identity") => false,
        Some(name) if name.eq_ignore_ascii_case(b"gzip") && protocol == RpcProtocol::Connect => true,
        Some(_) => {
            return Err(Refused::unmarked(
                Code::Unimplemented,
                "the content encoding is not served; send identity, or gzip with a Connect content type",
            ));
        }
    };
    Ok(BodyForm {
        protocol,
        codec,
        gzip,
        timeout,
    })
}

/// The allow-list. JSON may say that it is UTF-8; no other parameter is understood, so none is accepted.
fn content_type(value: &[u8]) -> Option<(RpcProtocol, Codec)> {
    let (kind, parameters) = match value.iter().position(|byte| *byte == b';') {
        Some(at) => (&value[..at], Some(value[at + 1..].trim_ascii())),
        None => (value, None),
    };
    let kind = kind.trim_ascii();
    let found = CONTENT_TYPES
        .iter()
        .find(|(name, ..)| kind.eq_ignore_ascii_case(name.as_bytes()));
    let (_, protocol, codec) = *found?;
    match parameters {
        None => Some((protocol, codec)),
        Some(text) if is_utf8_charset(text) && (protocol, codec) == (RpcProtocol::Connect, Codec::Json) => {
            Some((protocol, codec))
        }
        Some(_) => None,
    }
}

const CONTENT_TYPES: [(&str, RpcProtocol, Codec); 8] = [
    ("application/json", RpcProtocol::Connect, Codec::Json),
    ("application/proto", RpcProtocol::Connect, Codec::Proto),
    ("application/grpc", RpcProtocol::Grpc, Codec::Proto),
    ("application/grpc+proto", RpcProtocol::Grpc, Codec::Proto),
    ("application/grpc+json", RpcProtocol::Grpc, Codec::Json),
    ("application/grpc-web", RpcProtocol::GrpcWeb, Codec::Proto),
    ("application/grpc-web+proto", RpcProtocol::GrpcWeb, Codec::Proto),
    ("application/grpc-web+json", RpcProtocol::GrpcWeb, Codec::Json),
];

fn is_utf8_charset(parameter: &[u8]) -> bool {
    let parameter = parameter.to_ascii_lowercase();
    matches!(&parameter[..], b"charset=utf-8" | b"charset=\"utf-8\"")
}

/// At most ten ASCII digits of milliseconds.
fn connect_timeout(value: &HeaderValue) -> Result<Duration, Refused> {
    digits(value.as_bytes(), 10)
        .map(Duration::from_millis)
        .ok_or_else(|| Refused::invalid("the header connect-timeout-ms is not 1 to 10 digits of milliseconds"))
}

/// At most eight ASCII digits and a unit.
fn grpc_timeout(value: &HeaderValue) -> Result<Duration, Refused> {
    let parsed = value.as_bytes().split_last().and_then(|(unit, count)| {
        let count = digits(count, 8)?;
        Some(match unit {
            b'H' => Duration::from_secs(count * 3600),
            b'M' => Duration::from_secs(count * 60),
            b'S' => Duration::from_secs(count),
            b'm' => Duration::from_millis(count),
            b'u' => Duration::from_micros(count),
            b'n' => Duration::from_nanos(count),
            _ => return None,
        })
    });
    parsed.ok_or_else(|| Refused::invalid("the header grpc-timeout is not 1 to 8 digits and a unit of H M S m u n"))
}

fn digits(text: &[u8], most: usize) -> Option<u64> {
    if text.is_empty() || text.len() > most || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// What is wrong with a request as a message, before anything it asks for is looked at: whoever stands between us and the
/// peer may have read another request than we do, so its connection is not used again.
pub(super) fn misframed(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    if foreign_transfer_coding(headers) {
        return Some("the transfer coding is not chunked alone; compress with content-encoding");
    }
    host_problem(version, headers)
}

/// What is wrong with the `Host` of a request in HTTP/1 (RFC 9112, section 3.2). Only version 1.0 may leave it out; an empty
/// one is how a request names no host. HTTP/2 names the host elsewhere, and the HTTP library looks at it.
pub(super) fn host_problem(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    if version >= Version::HTTP_2 {
        return None;
    }
    let mut values = headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (None, _) if version < Version::HTTP_11 => None,
        (None, _) => Some("the header host is missing; HTTP/1.1 requests carry it once"),
        (Some(_), Some(_)) => Some("the header host is sent more than once; send it once"),
        (Some(host), None) if is_host(host.as_bytes()) => None,
        (Some(_), None) => Some("the header host is not a host with an optional port; correct it"),
    }
}

fn is_host(value: &[u8]) -> bool {
    value.is_empty() || (!value.contains(&b'@') && Authority::try_from(value).is_ok())
}

/// Whether a transfer coding other than plain `chunked` is stated. The HTTP parser accepts `gzip, chunked` and would
/// hand us the compressed bytes as the body.
fn foreign_transfer_coding(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => false,
        (Some(only), None) => !only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    }
}

/// Only the corridor ends a call, so the RPC library never sees the caller's deadline.
pub(super) fn remove_timeouts(headers: &mut HeaderMap) {
    headers.remove(CONNECT_TIMEOUT_MS);
    headers.remove(GRPC_TIMEOUT);
}

/// Whether a request speaks gRPC or gRPC-Web: errors of those travel under HTTP 200.
pub(super) const fn errors_under_200(protocol: RpcProtocol) -> bool {
    matches!(protocol, RpcProtocol::Grpc | RpcProtocol::GrpcWeb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_an_allow_list() {
        use Codec::{Json, Proto};
        use RpcProtocol::{Connect, Grpc, GrpcWeb};
        for (text, expected) in [
            ("application/json", Some((Connect, Json))),
            ("Application/JSON; charset=UTF-8", Some((Connect, Json))),
            ("application/json;charset=\"utf-8\"", Some((Connect, Json))),
            ("application/proto", Some((Connect, Proto))),
            ("application/grpc", Some((Grpc, Proto))),
            ("application/grpc+json", Some((Grpc, Json))),
            ("application/grpc-web+proto", Some((GrpcWeb, Proto))),
            ("application/json; charset=latin1", None),
            ("application/json; charset=utf-8; v=1", None),
            ("application/json;", None),
            ("application/proto; charset=utf-8", None),
            ("application/connect+json", None),
            ("application/grpc-web-text", None),
            ("application/grpc+thrift", None),
            ("application/jsonx", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(content_type(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn timeouts_are_digits_and_bounded() {
        let connect = |text: &'static str| connect_timeout(&HeaderValue::from_static(text)).ok();
        assert_eq!(connect("0"), Some(Duration::ZERO));
        assert_eq!(connect("9999999999"), Some(Duration::from_millis(9_999_999_999)));
        for bad in ["", "abc", "-1", "+1", "1.5", "12345678901", " 1"] {
            assert_eq!(connect(bad), None, "{bad:?}");
        }
        let grpc = |text: &'static str| grpc_timeout(&HeaderValue::from_static(text)).ok();
        assert_eq!(grpc("100m"), Some(Duration::from_millis(100)));
        assert_eq!(grpc("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "m", "1", "1x", "123456789S", "-1S"] {
            assert_eq!(grpc(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_host_is_there_once_and_is_one() {
        let told = |version, values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HOST, HeaderValue::from_static(value));
            }
            host_problem(version, &headers)
        };
        for host in ["a", "a:80", "127.0.0.1:8746", "[::1]:8746", "a.example.", ""] {
            for version in [Version::HTTP_10, Version::HTTP_11] {
                assert_eq!(told(version, &[host]), None, "{host:?}");
            }
        }
        for host in ["a b", "me@a", "a/b", "http://a", "a:b:c"] {
            assert!(
                told(Version::HTTP_11, &[host]).is_some_and(|told| told.contains("not a host")),
                "{host:?}"
            );
        }
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(told(version, &["a", "a"]).is_some_and(|told| told.contains("more than once")));
        }
        assert!(told(Version::HTTP_11, &[]).is_some_and(|told| told.contains("missing")));
        assert_eq!(told(Version::HTTP_10, &[]), None);
        assert_eq!(told(Version::HTTP_2, &[]), None);
    }
}
