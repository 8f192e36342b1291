//! The base URL: what is accepted, and when cleartext is.
//!
//! Read by hand and not by a URL library: such a library repairs what it reads (`127.1` becomes `127.0.0.1`, tabs vanish),
//! and a repaired host would make the loopback test answer for another text than the one the caller wrote.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls::pki_types::ServerName;

use crate::error::{Error, ErrorKind};

/// Longest host name DNS can carry, in characters.
const MAX_HOST_CHARS: usize = 253;

/// Longest label of a host name, in characters.
const MAX_LABEL_CHARS: usize = 63;

/// A daemon's address, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    /// Whether the scheme is `https`.
    pub(crate) tls: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Host and port as written, for the `Host` header.
    pub(crate) authority: String,
    /// Empty, or starts with `/` and does not end with one.
    pub(crate) prefix: String,
}

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Looked up when a call is made.
    Name(String),
    /// Needs no look-up.
    Address(IpAddr),
}

impl BaseUrl {
    /// Reads a base URL and decides whether cleartext is allowed to its host.
    pub(crate) fn parse(text: &str, insecure_http: bool) -> Result<Self, Error> {
        let url =
            Self::read(text).map_err(|fault| Error::local(ErrorKind::InvalidBaseUrl, format!("base URL {fault}")))?;
        if !url.tls && !insecure_http && !url.host.is_loopback() {
            return Err(Error::local(
                ErrorKind::InsecureHttp,
                "base URL is http to a host that is not loopback, so the token and the code would travel in clear; \
                 use https, or allow it with insecure_http(true)",
            ));
        }
        Ok(url)
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty; write it as https://host:port");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("contains a space, a control character or a character outside ASCII; remove it");
        }
        if text.contains(['?', '#', '\\']) {
            return Err("contains ?, # or \\; write only scheme, host, port and path");
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("is not absolute; write it as https://host:port")?;
        let tls = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err("has a scheme other than http and https; write it as https://host:port"),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("carries a user name; remove it, the token is not part of the address");
        }
        let (host, port) = Host::read(authority)?;
        let port = match port {
            None if tls => 443,
            None => 80,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|&port: &u16| port > 0)
                .ok_or("has a port that is not 1 to 65535")?,
            Some(_) => return Err("has a port that is not 1 to 65535"),
        };
        let prefix = path.trim_end_matches('/');
        if !prefix
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte))
        {
            return Err("has a path with a character that must be percent-encoded");
        }
        if tls && host.server_name().is_none() {
            return Err("has a host that no certificate can name");
        }
        Ok(Self {
            tls,
            host,
            port,
            authority: authority.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            if self.tls { "https" } else { "http" },
            self.authority,
            self.prefix
        )
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Host {
    /// Reads `host` or `host:port`; the port is still text.
    fn read(authority: &str) -> Result<(Self, Option<&str>), &'static str> {
        if let Some(bracketed) = authority.strip_prefix('[') {
            let (address, rest) = bracketed
                .split_once(']')
                .ok_or("has an IPv6 address without its closing bracket")?;
            let address: Ipv6Addr = address
                .parse()
                .map_err(|_| "has brackets around something other than an IPv6 address")?;
            let port = match rest {
                "" => None,
                _ => Some(
                    rest.strip_prefix(':')
                        .ok_or("has characters between the IPv6 address and the port")?,
                ),
            };
            return Ok((Self::Address(address.into()), port));
        }
        let (name, port) = match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        };
        if name.is_empty() {
            return Err("has no host");
        }
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok((Self::Address(address.into()), port));
        }
        let labels = name.strip_suffix('.').unwrap_or(name);
        let well_formed = labels.len() <= MAX_HOST_CHARS
            && labels.split('.').all(|label| {
                (1..=MAX_LABEL_CHARS).contains(&label.len())
                    && label
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            });
        if !well_formed {
            return Err("has a host that is not a name of letters, digits, - and _ in labels of 1 to 63 characters");
        }
        Ok((Self::Name(name.to_owned()), port))
    }

    /// The three hosts cleartext cannot leave this machine for; every other spelling needs the caller's consent.
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name.eq_ignore_ascii_case("localhost"),
            Self::Address(IpAddr::V4(address)) => address.is_loopback(),
            Self::Address(IpAddr::V6(address)) => *address == Ipv6Addr::LOCALHOST,
        }
    }

    /// The name a certificate is checked against.
    pub(crate) fn server_name(&self) -> Option<ServerName<'static>> {
        match self {
            Self::Name(name) => ServerName::try_from(name.clone()).ok(),
            Self::Address(address) => Some(ServerName::from(*address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_three_hosts_and_no_look_alike() {
        for url in [
            "http://127.9.9.9:8746",
            "http://LOCALHOST:8746",
            "http://[::1]:8746",
            "http://localhost",
        ] {
            assert!(BaseUrl::parse(url, false).is_ok(), "{url}");
        }
        for host in [
            "127.0.0.1.evil.example",
            "localhost.",
            "localhost.example",
            "127.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
        ] {
            let url = format!("http://{host}:1");
            assert_eq!(
                BaseUrl::parse(&url, false).unwrap_err().kind(),
                ErrorKind::InsecureHttp,
                "{url}"
            );
            assert!(BaseUrl::parse(&url, true).is_ok(), "{url}");
        }
    }

    #[test]
    fn the_prefix_is_kept_and_trailing_slashes_are_not() {
        let url = BaseUrl::parse("HTTPS://plimsoll.example/base//", false).unwrap();
        assert_eq!(url.to_string(), "https://plimsoll.example/base");
        assert_eq!((url.prefix.as_str(), url.port, url.tls), ("/base", 443, true));
        assert_eq!(BaseUrl::parse("http://127.0.0.1/", false).unwrap().port, 80);
    }
}
