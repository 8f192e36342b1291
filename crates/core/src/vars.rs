//! Variables: what a setting is called, what it may hold and how its text is read (20 §2.1).
//!
//! A crate that reads configuration exports a table of [`Var`]s. The same rows drive parsing, `-h`, the reference page
//! and the warning about names nobody reads, so none of them can disagree. Nothing here touches the process
//! environment: every function works on an injected [`Lookup`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

/// Where values come from: the process environment in a binary, a map in a test.
pub trait Lookup {
    /// The value of `name`, or `None` when it is not set at all.
    fn get(&self, name: &str) -> Option<&OsStr>;

    /// Every name and value, in any order. Used only to find names that no table knows.
    fn entries(&self) -> Vec<(&OsStr, &OsStr)>;
}

impl Lookup for std::collections::BTreeMap<OsString, OsString> {
    fn get(&self, name: &str) -> Option<&OsStr> {
        std::collections::BTreeMap::get(self, OsStr::new(name)).map(OsString::as_os_str)
    }

    fn entries(&self) -> Vec<(&OsStr, &OsStr)> {
        self.iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect()
    }
}

/// One variable: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Var {
    /// Its name in the environment.
    pub name: &'static str,
    /// What its text may hold.
    pub kind: Kind,
    /// What holds when it is unset, in the words of the reference page; readable by `kind` unless it is computed.
    pub default: &'static str,
    /// The providers that read it; `None` when every provider or the service does.
    pub provider: Option<&'static str>,
    /// Whether the thing it sets exists.
    pub state: State,
    /// What it does, for `-h` and the reference page.
    pub help: &'static str,
}

/// Whether the feature a variable belongs to exists in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The variable has its effect.
    Built,
    /// The named feature does not exist yet, so a non-blank value stops the start: a safeguard must never look applied.
    NotBuilt(&'static str),
}

/// What the text of a variable may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Decimal digits with an optional sign, within the bounds (both included).
    Int {
        /// Smallest value accepted.
        min: i64,
        /// Largest value accepted.
        max: i64,
    },
    /// A finite decimal number that is not negative; fraction and exponent allowed.
    Float,
    /// `0`, `false`, `1` or `true`, in any case.
    Bool,
    /// Numbers with units (`1h30m`), within the bounds (both included).
    Duration {
        /// Smallest value accepted.
        min: Duration,
        /// Largest value accepted.
        max: Duration,
        /// Whether `0` is accepted below `min`, with a meaning of its own.
        zero: bool,
    },
    /// Free text, trimmed.
    Text,
    /// A credential: never trimmed, never shown.
    Secret,
    /// A path, trimmed.
    Path,
    /// `host:port`, trimmed; an empty host is every interface.
    HostPort {
        /// Whether `off` (in any case) is accepted.
        off: bool,
    },
    /// One of the words, trimmed and in any case.
    OneOf(&'static [&'static str]),
    /// One of the words, trimmed and in any case; any other text means the default.
    OneOfOrDefault(&'static [&'static str]),
    /// Effective only when it is exactly this text.
    Exactly(&'static str),
}

/// Why a setting is refused: the variable, its value unless it is a credential, the limit and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The value of a known variable is not text.
    #[error("{variable}: the value is not valid UTF-8; set it again as UTF-8 text, or unset it")]
    NotUtf8 {
        /// The variable.
        variable: &'static str,
    },
    /// The value cannot be read as what the variable holds.
    #[error("{variable}={value:?}: not {expected}; set it to {expected}, or unset it ({default})")]
    Malformed {
        /// The variable.
        variable: &'static str,
        /// Its value as given.
        value: String,
        /// What it must be.
        expected: String,
        /// What holds when it is unset.
        default: Unset,
    },
    /// The value can be read, and lies outside the bounds.
    #[error("{variable}={value:?}: out of range; set it to {limit}, or unset it ({default})")]
    OutOfRange {
        /// The variable.
        variable: &'static str,
        /// Its value as given.
        value: String,
        /// The bounds.
        limit: String,
        /// What holds when it is unset.
        default: Unset,
    },
    /// The value is readable and cannot hold together with the other settings.
    #[error("{variable}={value:?}: {problem}; {fix}")]
    Unusable {
        /// The variable.
        variable: &'static str,
        /// Its value as given, or the value in force.
        value: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// A credential, or a variable that is missing, is wrong; no value is shown.
    #[error("{variable}: {problem}; {fix}")]
    Hidden {
        /// The variable.
        variable: &'static str,
        /// What is wrong, without the value.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// The variable belongs to a feature that does not exist yet.
    #[error("{variable}: set, but {feature} not built yet, so it would have no effect; unset it")]
    NotBuilt {
        /// The variable.
        variable: &'static str,
        /// The feature and its verb: "sessions are", "the docker provider is".
        feature: &'static str,
    },
}

impl SettingError {
    /// The variable the error is about.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::NotUtf8 { variable }
            | Self::Malformed { variable, .. }
            | Self::OutOfRange { variable, .. }
            | Self::Unusable { variable, .. }
            | Self::Hidden { variable, .. }
            | Self::NotBuilt { variable, .. } => variable,
        }
    }
}

/// How an error words what holds when the variable is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unset(&'static str);

impl fmt::Display for Unset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            out.write_str("no default")
        } else {
            write!(out, "default {}", self.0)
        }
    }
}

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

impl Var {
    /// A variable that has its effect, read by the service or by every provider.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            provider: None,
            state: State::Built,
            help,
        }
    }

    /// The same row, read by these providers only.
    #[must_use]
    pub const fn read_by(mut self, providers: &'static str) -> Self {
        self.provider = Some(providers);
        self
    }

    /// The same row, whose feature does not exist yet; `feature` reads "sessions are".
    #[must_use]
    pub const fn not_built(mut self, feature: &'static str) -> Self {
        self.state = State::NotBuilt(feature);
        self
    }

    /// The value exactly as given; empty counts as unset.
    ///
    /// # Errors
    /// A value that is not UTF-8.
    pub fn raw<'a>(&self, lookup: &'a dyn Lookup) -> Result<Option<&'a str>, SettingError> {
        match lookup.get(self.name) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Some("") => Ok(None),
                Some(text) => Ok(Some(text)),
                None => Err(SettingError::NotUtf8 { variable: self.name }),
            },
        }
    }

    /// The value without surrounding white space; blank counts as unset.
    ///
    /// # Errors
    /// A value that is not UTF-8.
    pub fn text<'a>(&self, lookup: &'a dyn Lookup) -> Result<Option<&'a str>, SettingError> {
        Ok(self.raw(lookup)?.map(str::trim).filter(|text| !text.is_empty()))
    }

    /// A whole number within the row's bounds, or `None` when unset.
    ///
    /// # Errors
    /// Not a decimal number of 64 bits, or outside the bounds.
    pub fn int(&self, lookup: &dyn Lookup) -> Result<Option<i64>, SettingError> {
        let Some(text) = self.text(lookup)? else {
            return Ok(None);
        };
        let Kind::Int { min, max } = self.kind else {
            return Err(self.malformed(text));
        };
        let value = parse_int(text).ok_or_else(|| self.malformed(text))?;
        if (min..=max).contains(&value) {
            Ok(Some(value))
        } else {
            Err(self.out_of_range(text))
        }
    }

    /// A whole number that is not negative, or the row's default, or 0 where the default is computed.
    ///
    /// # Errors
    /// As [`Var::int`].
    pub fn count(&self, lookup: &dyn Lookup) -> Result<u64, SettingError> {
        let value = self.int(lookup)?.or_else(|| parse_int(self.default)).unwrap_or(0);
        u64::try_from(value).map_err(|_| self.out_of_range(&value.to_string()))
    }

    /// A finite number that is not negative; 0 when unset.
    ///
    /// # Errors
    /// Anything else, NaN and infinity included.
    pub fn float(&self, lookup: &dyn Lookup) -> Result<f64, SettingError> {
        let Some(text) = self.text(lookup)? else { return Ok(0.0) };
        let value = parse_float(text).ok_or_else(|| self.malformed(text))?;
        // `-0` compares equal to zero and is one: the sum drops its sign.
        if value >= 0.0 {
            Ok(value + 0.0)
        } else {
            Err(self.out_of_range(text))
        }
    }

    /// A switch; false when unset.
    ///
    /// # Errors
    /// Anything but `0`, `false`, `1`, `true`: a typo must not switch a safeguard off.
    pub fn bool(&self, lookup: &dyn Lookup) -> Result<bool, SettingError> {
        let Some(text) = self.text(lookup)? else {
            return Ok(false);
        };
        match text.to_ascii_lowercase().as_str() {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(self.malformed(text)),
        }
    }

    /// A span of time within the row's bounds, or `None` when unset.
    ///
    /// # Errors
    /// A number without unit, an unknown unit, or outside the bounds.
    pub fn duration(&self, lookup: &dyn Lookup) -> Result<Option<Duration>, SettingError> {
        let Some(text) = self.text(lookup)? else {
            return Ok(None);
        };
        let Kind::Duration { min, max, zero } = self.kind else {
            return Err(self.malformed(text));
        };
        let nanos = parse_duration(text).ok_or_else(|| self.malformed(text))?;
        let value = duration_from(nanos).ok_or_else(|| self.out_of_range(text))?;
        if (min..=max).contains(&value) || (zero && value.is_zero()) {
            Ok(Some(value))
        } else {
            Err(self.out_of_range(text))
        }
    }

    /// The chosen word in lower case, or `None` when unset (or, for [`Kind::OneOfOrDefault`], unrecognised).
    ///
    /// # Errors
    /// A word outside the list.
    pub fn word(&self, lookup: &dyn Lookup) -> Result<Option<&'static str>, SettingError> {
        let Some(text) = self.text(lookup)? else {
            return Ok(None);
        };
        let lower = text.to_lowercase();
        match self.kind {
            Kind::OneOf(words) => match words.iter().find(|word| **word == lower) {
                Some(word) => Ok(Some(*word)),
                None => Err(self.malformed(text)),
            },
            Kind::OneOfOrDefault(words) => Ok(words.iter().find(|word| **word == lower).copied()),
            _ => Err(self.malformed(text)),
        }
    }

    /// `host:port`, the row's default when unset, or `None` for `off` where the row accepts it.
    ///
    /// # Errors
    /// No port, a port that is not 0 to 65535, or an address with more than one meaning.
    pub fn host_port(&self, lookup: &dyn Lookup) -> Result<Option<HostPort>, SettingError> {
        let text = self.text(lookup)?.unwrap_or(self.default);
        match self.kind {
            Kind::HostPort { off: true } if text.eq_ignore_ascii_case("off") => Ok(None),
            _ => parse_host_port(text).map(Some).ok_or_else(|| self.malformed(text)),
        }
    }

    /// Whether the value is exactly the text of a [`Kind::Exactly`] row: not trimmed, no other spelling.
    ///
    /// # Errors
    /// A value that is not UTF-8.
    pub fn exactly(&self, lookup: &dyn Lookup) -> Result<bool, SettingError> {
        let Kind::Exactly(expected) = self.kind else {
            return Ok(false);
        };
        Ok(self.raw(lookup)? == Some(expected))
    }

    /// Checks the value by itself: readable, within bounds, and belonging to something that exists.
    ///
    /// # Errors
    /// The first of: not UTF-8, malformed, out of range, feature not built. A malformed value of an unbuilt feature is
    /// reported as malformed, so that its text is seen to be wrong at once.
    pub fn check(&self, lookup: &dyn Lookup) -> Result<(), SettingError> {
        match self.kind {
            Kind::Int { .. } => self.int(lookup).map(drop)?,
            Kind::Float => self.float(lookup).map(drop)?,
            Kind::Bool => self.bool(lookup).map(drop)?,
            Kind::Duration { .. } => self.duration(lookup).map(drop)?,
            Kind::HostPort { .. } if self.text(lookup)?.is_some() => self.host_port(lookup).map(drop)?,
            Kind::OneOf(_) => self.word(lookup).map(drop)?,
            Kind::Text
            | Kind::Secret
            | Kind::Path
            | Kind::HostPort { .. }
            | Kind::OneOfOrDefault(_)
            | Kind::Exactly(_) => self.raw(lookup).map(drop)?,
        }
        match self.state {
            State::NotBuilt(feature) if self.text(lookup)?.is_some() => Err(SettingError::NotBuilt {
                variable: self.name,
                feature,
            }),
            _ => Ok(()),
        }
    }

    /// An error for a readable value that clashes with something else; the value is hidden for a credential.
    pub fn unusable(
        &self,
        value: impl fmt::Display,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> SettingError {
        if self.kind == Kind::Secret {
            return self.hidden(problem, fix);
        }
        let (problem, fix) = (problem.into(), fix.into());
        SettingError::Unusable {
            variable: self.name,
            value: value.to_string(),
            problem,
            fix,
        }
    }

    /// An error that shows no value: for credentials and for variables that are missing.
    pub fn hidden(&self, problem: impl Into<String>, fix: impl Into<String>) -> SettingError {
        SettingError::Hidden {
            variable: self.name,
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    fn malformed(&self, value: &str) -> SettingError {
        if self.kind == Kind::Secret {
            return self.hidden("the value is malformed", "set it again, or unset it");
        }
        let expected = self.kind.to_string();
        SettingError::Malformed {
            variable: self.name,
            value: value.to_owned(),
            expected,
            default: Unset(self.default),
        }
    }

    fn out_of_range(&self, value: &str) -> SettingError {
        let limit = self.kind.to_string();
        SettingError::OutOfRange {
            variable: self.name,
            value: value.to_owned(),
            limit,
            default: Unset(self.default),
        }
    }
}

/// The words used in errors and on the reference page: "a whole number from 1 to 1024".
impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { min, max: i64::MAX } => write!(out, "a whole number of at least {min}"),
            Self::Int { min, max } => write!(out, "a whole number from {min} to {max}"),
            Self::Float => out.write_str("a finite decimal number of at least 0"),
            Self::Bool => out.write_str("0, false, 1 or true"),
            Self::Duration { min, max, zero } => {
                if *zero {
                    out.write_str("0 or ")?;
                }
                write!(out, "a duration with units (30m, 90s, 1h30m) from {min:?} to ")?;
                match max.as_secs() {
                    seconds if seconds % 3600 == 0 => write!(out, "{}h", seconds / 3600),
                    seconds => write!(out, "{seconds}s"),
                }
            }
            Self::Text => out.write_str("text"),
            Self::Secret => out.write_str("a credential"),
            Self::Path => out.write_str("a path"),
            Self::HostPort { off: false } => out.write_str("host:port"),
            Self::HostPort { off: true } => out.write_str("host:port or off"),
            Self::OneOf(words) | Self::OneOfOrDefault(words) => match words {
                [] => out.write_str("nothing"),
                [only] => out.write_str(only),
                [most @ .., last] => write!(out, "{} or {last}", most.join(", ")),
            },
            Self::Exactly(text) => write!(out, "exactly {text}"),
        }
    }
}

/// The names set in `lookup` that begin with one of ours and stand in no row of `table`, sorted. Entries that are not
/// UTF-8 are left out (20 §1, §2.1).
pub fn unknown<'a>(table: impl Iterator<Item = &'a Var>, lookup: &dyn Lookup) -> Vec<String> {
    let known: std::collections::BTreeSet<&str> = table.map(|var| var.name).collect();
    let mut names: Vec<String> = lookup
        .entries()
        .into_iter()
        .filter(|(_, value)| value.to_str().is_some())
        .filter_map(|(name, _)| name.to_str())
        .filter(|name| name.starts_with("PLIMSOLL_") || name.starts_with("SANDBOX_"))
        .filter(|name| !known.contains(name))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names
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
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(HostPort {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStringExt;

    fn set(name: &str, value: &str) -> BTreeMap<OsString, OsString> {
        BTreeMap::from([(name.into(), value.into())])
    }

    const MEMORY: Var = Var::new("SANDBOX_MEMORY_MB", Kind::Int { min: 0, max: i64::MAX }, "0", "");
    const MAX: Var = Var::new("SANDBOX_MAX_CONCURRENT", Kind::Int { min: 1, max: 1024 }, "8", "");
    const CPUS: Var = Var::new("SANDBOX_CPUS", Kind::Float, "0", "");
    const METRICS: Var = Var::new(
        "PLIMSOLL_METRICS_ADDR",
        Kind::HostPort { off: true },
        "127.0.0.1:9464",
        "",
    );
    const TIER: Var = Var::new("SANDBOX_MIN_ISOLATION", Kind::OneOf(&["process", "vm"]), "", "");
    const HARDENED: Var = Var::new("PLIMSOLL_HARDENED", Kind::Bool, "false", "").not_built("hardened mode is");
    const LIFETIME: Var = Var::new(
        "SANDBOX_SESSION_LIFETIME",
        Kind::Duration {
            min: Duration::from_secs(1),
            max: Duration::from_secs(12 * 3600),
            zero: false,
        },
        "30m",
        "",
    );

    #[test]
    fn a_whole_number_is_a_sign_and_digits_of_64_bits() {
        for (text, expected) in [
            ("-0", Some(0)),
            ("+7", Some(7)),
            (" 42\u{2003}", Some(42)),
            ("9223372036854775807", Some(i64::MAX)),
            ("", None),
            ("  ", None),
        ] {
            assert_eq!(MEMORY.int(&set(MEMORY.name, text)), Ok(expected), "{text:?}");
        }
        for text in [
            "abc",
            "9223372036854775808",
            "1.0",
            "1_000",
            "0x10",
            "+-1",
            "+",
            "1 2",
            "१",
        ] {
            let error = MEMORY.int(&set(MEMORY.name, text)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("SANDBOX_MEMORY_MB={text:?}: not a whole number")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_number_outside_the_bounds_names_variable_value_limit_and_default() {
        assert_eq!(
            MAX.int(&set(MAX.name, "1025")).unwrap_err().to_string(),
            "SANDBOX_MAX_CONCURRENT=\"1025\": out of range; set it to a whole number from 1 to 1024, or unset it (default 8)"
        );
        assert_eq!(MAX.count(&BTreeMap::new()), Ok(8));
    }

    #[test]
    fn a_value_that_is_not_utf8_is_refused_by_name_only() {
        let mut lookup = BTreeMap::new();
        lookup.insert(OsString::from(MEMORY.name), OsString::from_vec(vec![0x31, 0xff]));
        let error = MEMORY.check(&lookup).unwrap_err();
        assert_eq!(error, SettingError::NotUtf8 { variable: MEMORY.name });
        assert!(error.to_string().contains("SANDBOX_MEMORY_MB"));
    }

    #[test]
    fn processors_are_finite_and_not_negative() {
        assert_eq!(CPUS.float(&set(CPUS.name, " 1.5e0 ")), Ok(1.5));
        assert_eq!(CPUS.float(&set(CPUS.name, "-0")).map(f64::is_sign_positive), Ok(true));
        for text in ["NaN", "Inf", "infinity", "-1", "1e999", "0x1p3", "lots", "."] {
            let error = CPUS.float(&set(CPUS.name, text)).unwrap_err().to_string();
            assert!(error.contains("SANDBOX_CPUS") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_switch_has_four_spellings_in_any_case() {
        for (text, expected) in [
            ("1", true),
            (" TRUE ", true),
            ("0", false),
            ("False", false),
            (" ", false),
        ] {
            assert_eq!(HARDENED.bool(&set(HARDENED.name, text)), Ok(expected), "{text:?}");
        }
        for text in ["yes", "on", "2", "tru"] {
            assert!(HARDENED.bool(&set(HARDENED.name, text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn durations_need_units() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("30m", 1_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1µs", 1_000),
            ("1μs", 1_000),
            ("2us3ns", 2_003),
            ("-1s", -1_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Some(nanos), "{text:?}");
        }
        for text in ["", "30", "s", ".s", "1h 30m", "1d", "1H", "--1s", "300000000000h", "-"] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_session_lifetime_without_unit_or_outside_1s_to_12h_is_refused() {
        for text in ["30", "13h", "500ms", "-1s"] {
            let error = LIFETIME.check(&set(LIFETIME.name, text)).unwrap_err().to_string();
            assert!(
                error.contains("SANDBOX_SESSION_LIFETIME") && error.contains(text),
                "{error}"
            );
            assert!(error.contains("from 1s to 12h"), "{error}");
        }
        assert_eq!(
            LIFETIME.duration(&set(LIFETIME.name, "12h")),
            Ok(Some(Duration::from_secs(43200)))
        );
    }

    #[test]
    fn an_address_has_a_port_or_is_off() {
        let read = |text: &str| {
            METRICS
                .host_port(&set(METRICS.name, text))
                .map(|value| value.map(|a| a.to_string()))
        };
        assert_eq!(read(""), Ok(Some("127.0.0.1:9464".to_owned())));
        assert_eq!(read("  "), Ok(Some("127.0.0.1:9464".to_owned())));
        assert_eq!(read(" OFF "), Ok(None));
        assert_eq!(read(":9464"), Ok(Some(":9464".to_owned())));
        assert_eq!(read("[::1]:9464"), Ok(Some("[::1]:9464".to_owned())));
        for text in [
            "9464",
            "no",
            "127.0.0.1",
            "disabled",
            "::1:9464",
            "[::1]",
            "a:",
            "a:65536",
            "a:-1",
            "[x]:1",
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains("PLIMSOLL_METRICS_ADDR") && error.contains(text),
                "{error}"
            );
        }
    }

    #[test]
    fn a_word_is_trimmed_and_lowered() {
        assert_eq!(TIER.word(&set(TIER.name, "VM ")), Ok(Some("vm")));
        for text in ["none", "unknown", "strong"] {
            assert!(TIER.word(&set(TIER.name, text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_variable_of_an_unbuilt_feature_stops_the_start_unless_blank() {
        assert_eq!(HARDENED.check(&set(HARDENED.name, "  ")), Ok(()));
        assert_eq!(HARDENED.check(&BTreeMap::new()), Ok(()));
        let error = HARDENED.check(&set(HARDENED.name, "0")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("PLIMSOLL_HARDENED: set, but hardened mode is not built yet"),
            "{error}"
        );
        // Malformed first: the operator sees which text is wrong.
        assert!(
            HARDENED
                .check(&set(HARDENED.name, "yes"))
                .unwrap_err()
                .to_string()
                .contains("\"yes\"")
        );
    }

    #[test]
    fn a_credential_is_never_shown() {
        let token = Var::new("PLIMSOLL_TOKEN", Kind::Secret, "", "");
        for error in [
            token.unusable("hunter2", "too short", "use 32 bytes"),
            token.malformed("hunter2"),
        ] {
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn names_nobody_reads_are_found_sorted_and_only_ours() {
        let mut lookup = set("SANDBOX_MAX_CONCURENT", "4");
        lookup.insert("PLIMSOLL_ADR".into(), ":1".into());
        lookup.insert("SANDBOX_MAX_CONCURRENT".into(), "4".into());
        lookup.insert("HOME".into(), "/root".into());
        lookup.insert("SANDBOX_BYTES".into(), OsString::from_vec(vec![0xff]));
        lookup.insert(OsString::from_vec(b"SANDBOX_\xff".to_vec()), "1".into());
        assert_eq!(
            unknown([MAX].iter(), &lookup),
            ["PLIMSOLL_ADR", "SANDBOX_MAX_CONCURENT"]
        );
    }
}
