//! Variables: what a setting is called, what it may hold and how its text is read.
//!
//! A crate that reads configuration exports a table of [`Var`]s. The same rows drive parsing, `-h`, the reference page
//! and the warning about names nobody reads, so none of them can disagree. Nothing here touches the process
//! environment: every function works on an injected [`Lookup`].

mod error;
mod parse;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

pub use error::{SettingError, Unset};
use parse::port_is_out_of_range;
pub use parse::{HostPort, duration_from, parse_duration, parse_float, parse_host_port, parse_int};

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
    /// A provider's name, trimmed and in any case. Only those that are built are told of; the others are known, so that
    /// whoever reads the name can say that they do not exist yet.
    Provider {
        /// In this build.
        built: &'static [&'static str],
        /// Not built yet.
        planned: &'static [&'static str],
    },
    /// One of the words, trimmed and in any case; any other text means the default.
    OneOfOrDefault(&'static [&'static str]),
    /// Effective only when it is exactly this text.
    Exactly(&'static str),
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
        let value = duration_from(nanos).ok_or_else(|| {
            let fix = format!("set it to {}, or unset it ({})", self.kind, Unset(self.default));
            self.unusable(text, "a duration cannot be negative", fix)
        })?;
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
            Kind::Provider { built, planned } => match built.iter().chain(planned).find(|word| **word == lower) {
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
            _ => parse_host_port(text).map(Some).ok_or_else(|| {
                if port_is_out_of_range(text) {
                    self.out_of_range(text)
                } else {
                    self.malformed(text)
                }
            }),
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
            Kind::OneOf(_) | Kind::Provider { .. } => self.word(lookup).map(drop)?,
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
            Self::HostPort { off: false } => out.write_str("host:port with a port from 0 to 65535"),
            Self::HostPort { off: true } => out.write_str("host:port with a port from 0 to 65535, or off"),
            Self::OneOf(words) | Self::OneOfOrDefault(words) => out.write_str(&either(words)),
            Self::Provider { built, .. } => write!(out, "a provider of this build ({})", either(built)),
            Self::Exactly(text) => write!(out, "exactly {text}"),
        }
    }
}

fn either(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The names set in `lookup` that begin with one of ours and stand in no row of `table`, sorted. Entries that are not
/// UTF-8 are left out.
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

#[cfg(test)]
mod tests;
