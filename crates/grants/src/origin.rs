//! The origin a grant reaches, judged on its text before any URL library could normalise it (spec 30 §2.1).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{is_loopback, is_metadata};

/// Longest host name, in bytes, without a final dot.
const MAX_NAME_BYTES: usize = 253;
/// Longest label of a host name, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// Scheme, host and port of an API. Nothing else can stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    text: String,
    https: bool,
    host: Host,
    port: u16,
    authority: String,
}

/// Where an origin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name as written, perhaps with one dot at its end.
    Name(String),
    /// An address literal.
    Address(IpAddr),
}

impl Host {
    /// Whether it is the name `localhost`, in any case.
    pub fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if name.trim_end_matches('.').eq_ignore_ascii_case("localhost"))
    }
}

/// Why a base URL is refused. The text never repeats it, because a password may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Nothing there.
    #[error("is required: write the API's origin, such as https://api.example.com")]
    Missing,
    /// No `scheme://`, white space, control characters, or a host that is none.
    #[error("is not an origin; write scheme, host and optional port, such as https://api.example.com:8443")]
    Syntax,
    /// Neither http nor https.
    #[error("must start with https://")]
    Scheme,
    /// Plain http to somewhere else.
    #[error("must be https; plain http is for localhost and loopback addresses only")]
    Plaintext,
    /// A user or password.
    #[error("must hold no user or password; use `token` for credentials")]
    UserInfo,
    /// Path, query or fragment.
    #[error("must end after host and port: no path (not even /), query or fragment")]
    NotAnOrigin,
    /// Not a number from 1 to 65535.
    #[error("must have a port from 1 to 65535 after the colon, or no colon")]
    Port,
    /// Not a DNS name.
    #[error(
        "must have a host name of ASCII letters, digits, - and _ in labels of 1 to 63 bytes, 253 in all (write other scripts as xn--…)"
    )]
    Name,
    /// An address in a form that parsers read differently.
    #[error("must write an address as four decimal numbers without leading zeros, or as IPv6 in brackets")]
    OddAddress,
    /// A metadata address.
    #[error("must not be a metadata address; those are never dialled")]
    Metadata,
}

impl Origin {
    /// Checks an origin.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        if text.trim().is_empty() {
            return Err(OriginError::Missing);
        }
        let (scheme, rest) = text.split_once("://").ok_or(OriginError::Syntax)?;
        let https = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(OriginError::Scheme),
        };
        if rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(OriginError::Syntax);
        }
        let end = rest.find(['/', '?', '#']);
        if rest[..end.unwrap_or(rest.len())].contains('@') {
            return Err(OriginError::UserInfo);
        }
        if end.is_some() {
            return Err(OriginError::NotAnOrigin);
        }
        let (host_text, port_text) = split_port(rest)?;
        let host = read_host(host_text)?;
        let default = if https { 443 } else { 80 };
        let port = port_text.map_or(Ok(default), read_port)?;
        match &host {
            Host::Address(address) if is_metadata(*address) => return Err(OriginError::Metadata),
            Host::Address(address) if !https && !is_loopback(*address) => return Err(OriginError::Plaintext),
            Host::Name(name) if !https && !name.eq_ignore_ascii_case("localhost") => {
                return Err(OriginError::Plaintext);
            }
            _ => {}
        }
        let authority = with_port(host_text, port, default);
        Ok(Self {
            text: text.to_owned(),
            https,
            host,
            port,
            authority,
        })
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is reached over TLS.
    pub const fn is_https(&self) -> bool {
        self.https
    }

    /// Its host.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Its port, written or the scheme's own.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `Host` header: the host as written, and the port unless it is the scheme's own.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The spelling under which calls are counted: one for all texts that reach the same place.
    pub fn canonical(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.trim_end_matches('.').to_ascii_lowercase(),
            Host::Address(address) => match address.to_canonical() {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            },
        };
        let (scheme, default) = if self.https { ("https", 443) } else { ("http", 80) };
        format!("{scheme}://{}", with_port(&host, self.port, default))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn with_port(host: &str, port: u16, default: u16) -> String {
    if port == default {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}

/// Splits `host[:port]`; brackets stay with the host.
fn split_port(text: &str) -> Result<(&str, Option<&str>), OriginError> {
    let end = if text.starts_with('[') {
        text.find(']').ok_or(OriginError::OddAddress)? + 1
    } else {
        text.find(':').unwrap_or(text.len())
    };
    let (host, rest) = text.split_at(end);
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(OriginError::Syntax),
    }
}

fn read_port(text: &str) -> Result<u16, OriginError> {
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(OriginError::Port);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(OriginError::Port),
        Ok(port) => Ok(port),
    }
}

fn read_host(text: &str) -> Result<Host, OriginError> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr = inner.parse().map_err(|_| OriginError::OddAddress)?;
        return Ok(Host::Address(address.into()));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err(OriginError::Syntax);
    }
    // URL parsers read a host whose last label is a number as an address, each in its own way.
    if name.rsplit('.').next().is_some_and(is_number) {
        return Err(OriginError::OddAddress);
    }
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(OriginError::Name);
    }
    Ok(Host::Name(text.to_owned()))
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
