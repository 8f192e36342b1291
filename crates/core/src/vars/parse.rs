//! The text of a value, and nothing else: which characters mean which number, duration or address.

use std::fmt;
use std::time::Duration;

/// `host:port` as written: the host is not resolved here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, an address without brackets, or empty for every interface.
    pub host: String,
    /// 0 lets the system choose.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// A sign and decimal digits as a 64-bit number; anything else is `None`.
pub fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A decimal number with optional sign, fraction and exponent; `None` for anything else or anything not finite.
pub fn parse_float(text: &str) -> Option<f64> {
    let decimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    decimal
        .then(|| text.parse::<f64>().ok())
        .flatten()
        .filter(|value| value.is_finite())
}

/// The units of a duration in nanoseconds. Longer spellings stand before the ones they begin with.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration such as `1h30m`, `500ms`, `1.5s` or `-2s`, in nanoseconds. A bare `0` is zero; any other number without
/// a unit, an unknown unit and anything past 64 bits of nanoseconds are `None`. Fractions of a nanosecond are dropped.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let whole = digits(rest);
        rest = &rest[whole.len()..];
        let fraction = match rest.strip_prefix('.') {
            Some(after) => {
                let fraction = digits(after);
                rest = &after[fraction.len()..];
                fraction
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, scale) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        let number: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(number.checked_mul(*scale)?)?;
        // 18 digits are finer than any unit can show, and keep the product within 128 bits.
        let fraction = &fraction[..fraction.len().min(18)];
        if !fraction.is_empty() {
            let part: i128 = fraction.parse().ok()?;
            total = total.checked_add(part * scale / 10_i128.pow(u32::try_from(fraction.len()).ok()?))?;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Nanoseconds as a span of time; `None` when negative.
pub fn duration_from(nanos: i64) -> Option<Duration> {
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

fn digits(text: &str) -> &str {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..end]
}

/// `host:port` with a decimal port; an IPv6 address stands in brackets, the host may be empty.
pub fn parse_host_port(text: &str) -> Option<HostPort> {
    let (host, port) = split_host_port(text)?;
    Some(HostPort {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

/// Whether the text is an address but for the size of its port.
pub(super) fn port_is_out_of_range(text: &str) -> bool {
    split_host_port(text).is_some_and(|(_, port)| port.parse::<u16>().is_err())
}

/// The host, and the digits of the port.
fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, after.strip_prefix(':')?)
        }
        None => {
            let (host, port) = text.split_once(':')?;
            if port.contains(':') || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == ']') {
                return None;
            }
            (host, port)
        }
    };
    let decimal = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then_some((host, port))
}
