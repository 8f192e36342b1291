//! The service's own variables, as one typed tree.

use plimsoll_core::vars::{HostPort, Kind, Lookup, SettingError, Var};

use crate::log::Format;
use crate::{auth, grants, limiter, sessions, tls};

/// The address callers connect to.
pub const ADDR: Var = Var::new(
    "PLIMSOLL_ADDR",
    Kind::HostPort { off: false },
    ":8746",
    "Where callers connect. An empty host is every interface; port 0 lets the system choose, and the log names it.",
);

/// The address of the metrics page.
pub const METRICS_ADDR: Var = Var::new(
    "PLIMSOLL_METRICS_ADDR",
    Kind::HostPort { off: true },
    "127.0.0.1:9464",
    "Where /metrics is served, without authentication; off serves none. Any address but a loopback one is warned about.",
);

const LOG_FORMAT: Var = Var::new(
    "PLIMSOLL_LOG_FORMAT",
    Kind::OneOfOrDefault(&["json", "text"]),
    "json",
    "How records on stderr are written. Any other word means json, the form programs can read.",
);

/// Whether refused calls are told in the log.
pub const LOG_REFUSALS: Var = Var::new(
    "PLIMSOLL_LOG_REFUSALS",
    Kind::Bool,
    "false",
    "Write a record for each refused call of a known caller: who, what, code and reason, at most 20 of one caller a minute.",
);

/// Whether the daemon serves only while every rule of hardened mode holds.
pub const HARDENED: Var = Var::new(
    "PLIMSOLL_HARDENED",
    Kind::Bool,
    "false",
    "Refuse to serve unless every rule of hardened mode holds; all that do not are reported together (docs/hardened.md).",
);

/// The profiles that hardened mode lets be open.
pub const HARDENED_OPEN_PROFILES: Var = Var::new(
    "PLIMSOLL_HARDENED_OPEN_PROFILES",
    Kind::Text,
    "",
    "Grant profiles that are meant for every caller, by name with commas between: hardened mode refuses any other that \
     has * among its allowed_callers.",
);

/// Where the service manager waits for word that the daemon serves.
pub const NOTIFY_SOCKET: Var = Var::new(
    "NOTIFY_SOCKET",
    Kind::Path,
    "",
    "Set by the service manager: the socket that is told when the daemon serves and when it stops.",
);

/// Variables of the service itself.
const SERVICE: &[Var] = &[
    ADDR,
    METRICS_ADDR,
    HARDENED,
    HARDENED_OPEN_PROFILES,
    LOG_FORMAT,
    LOG_REFUSALS,
    NOTIFY_SOCKET,
];

/// Every variable the service reads, in groups.
pub const VARS: &[&[Var]] = &[
    SERVICE,
    tls::VARS,
    auth::VARS,
    grants::VARS,
    limiter::VARS,
    sessions::VARS,
];

/// Where to listen and how to write the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where callers connect.
    pub addr: HostPort,
    /// Where the metrics page is served; `None` = nowhere.
    pub metrics_addr: Option<HostPort>,
    /// Whether refused calls are told in the log.
    pub log_refusals: bool,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let addr = ADDR.host_port(lookup)?;
        let metrics_addr = METRICS_ADDR.host_port(lookup)?;
        Ok(Self {
            addr: addr.unwrap_or_else(|| HostPort {
                host: String::new(),
                port: 0,
            }),
            metrics_addr,
            log_refusals: LOG_REFUSALS.bool(lookup)?,
        })
    }
}

/// The grant profiles that are meant for every caller, by name.
///
/// # Errors
/// An empty name.
pub fn open_profiles(lookup: &dyn Lookup) -> Result<Vec<String>, SettingError> {
    let Some(text) = HARDENED_OPEN_PROFILES.text(lookup)? else {
        return Ok(Vec::new());
    };
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        let (problem, fix) = (
            "holds an empty name",
            "write the names with one comma between two of them",
        );
        return Err(HARDENED_OPEN_PROFILES.unusable(text, problem, fix));
    }
    Ok(names)
}

/// The log's form. Read first, because everything else is reported through it; no value of it is an error.
pub fn log_format(lookup: &dyn Lookup) -> Format {
    match LOG_FORMAT.word(lookup) {
        Ok(Some("text")) => Format::Text,
        _ => Format::Json,
    }
}

/// Whether an address as written reaches this host only: `localhost` in any case, or a loopback IP. An empty host and
/// every other name are not.
pub fn is_loopback(addr: &HostPort) -> bool {
    addr.host.eq_ignore_ascii_case("localhost")
        || addr
            .host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;
    use plimsoll_core::vars::parse_host_port;

    fn lookup(values: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        values.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn read(values: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(&lookup(values)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_environment_listens_everywhere_and_shows_metrics_to_this_host() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.addr.to_string(), ":8746");
        assert_eq!(settings.metrics_addr.unwrap().to_string(), "127.0.0.1:9464");
    }

    #[test]
    fn metrics_can_be_off_and_callers_cannot() {
        assert_eq!(read(&[("PLIMSOLL_METRICS_ADDR", " OFF ")]).unwrap().metrics_addr, None);
        assert!(
            read(&[("PLIMSOLL_ADDR", "off")])
                .unwrap_err()
                .contains("PLIMSOLL_ADDR=\"off\"")
        );
    }

    #[test]
    fn open_profiles_are_names_with_commas_between() {
        let names = |value| open_profiles(&lookup(&[("PLIMSOLL_HARDENED_OPEN_PROFILES", value)]));
        assert_eq!(names(" "), Ok(Vec::new()));
        assert_eq!(names(" a ,b-c"), Ok(vec!["a".to_owned(), "b-c".to_owned()]));
        for value in [",", "a,", "a,,b"] {
            let told = names(value).unwrap_err().to_string();
            assert!(
                told.contains("HARDENED_OPEN_PROFILES") && told.contains("an empty name"),
                "{told}"
            );
        }
    }

    #[test]
    fn an_unknown_log_format_is_json() {
        for (value, expected) in [
            ("text", Format::Text),
            (" TEXT ", Format::Text),
            ("json", Format::Json),
            ("logfmt", Format::Json),
            ("", Format::Json),
        ] {
            assert_eq!(
                log_format(&lookup(&[("PLIMSOLL_LOG_FORMAT", value)])),
                expected,
                "{value:?}"
            );
        }
    }

    #[test]
    fn loopback_is_read_from_the_address_as_written() {
        let is = |text: &str| parse_host_port(text).is_some_and(|addr| is_loopback(&addr));
        for text in ["127.0.0.1:1", "[::1]:1", "localhost:1", "LocalHost:1", "127.9.9.9:1"] {
            assert!(is(text), "{text}");
        }
        for text in [":1", "0.0.0.0:1", "10.0.0.5:1", "example.com:1", "127.0.0.1", "[::]:1"] {
            assert!(!is(text), "{text}");
        }
    }
}
