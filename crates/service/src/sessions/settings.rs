//! How many sessions are kept and for how long, and how that is read.

use std::time::Duration;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Evidence, SessionTerms};

const COUNT: Kind = Kind::Int {
    min: 0,
    max: u32::MAX as i64,
};
const SECOND: Duration = Duration::from_secs(1);
const TWELVE_HOURS: Duration = Duration::from_secs(12 * 3600);

/// 1 TiB in MiB.
const MAX_DISK_MB: i64 = 1 << 20;

const MAX: Var = Var::new(
    "SANDBOX_MAX_SESSIONS",
    COUNT,
    "0",
    "Sessions kept at once, suspended ones included; 0 turns sessions off. A session that runs takes one of \
     SANDBOX_MAX_CONCURRENT, and gives it back while it is suspended if the provider then frees its memory.",
);

const MAX_PER_CALLER: Var = Var::new(
    "SANDBOX_MAX_SESSIONS_PER_CALLER",
    COUNT,
    "0",
    "Sessions of one caller, suspended ones included; 0 sets no cap of its own.",
);

const MAX_PER_OWNER: Var = Var::new(
    "SANDBOX_MAX_SESSIONS_PER_OWNER",
    COUNT,
    "0",
    "Sessions of one owner of a caller; 0 sets no cap. At the cap an open replaces the owner's least recently used idle \
     session.",
);

const LIFETIME: Var = Var::new(
    "SANDBOX_SESSION_LIFETIME",
    Kind::Duration {
        min: SECOND,
        max: TWELVE_HOURS,
        zero: false,
    },
    "30m",
    "Longest life of a session. An open may ask for less.",
);

const IDLE: Var = Var::new(
    "SANDBOX_SESSION_IDLE",
    Kind::Duration {
        min: SECOND,
        max: TWELVE_HOURS,
        zero: true,
    },
    "5m",
    "Idle time after which a session is suspended, and one that nobody has named yet is closed; 0 never suspends, and then \
     the latter takes 5 minutes. An open may ask for less.",
);

const DISK_MB: Var = Var::new(
    "SANDBOX_SESSION_DISK_MB",
    Kind::Int {
        min: 0,
        max: MAX_DISK_MB,
    },
    "1024",
    "What a session may write, in MiB, measured after each call; 0 sets no bound. Only with a provider that can bound it: \
     in wasm sessions files count as memory.",
);

/// The variables read here.
pub const VARS: &[Var] = &[MAX, MAX_PER_CALLER, MAX_PER_OWNER, LIFETIME, IDLE, DISK_MB];

/// On which terms sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sessions at once; 0 = sessions are off.
    pub max: u32,
    /// Of one caller; 0 = no cap of its own.
    pub max_per_caller: u32,
    /// Of one owner; 0 = no cap.
    pub max_per_owner: u32,
    /// Longest life.
    pub lifetime: Duration,
    /// Idle time before suspension; zero = never.
    pub idle: Duration,
    /// What a session may write, in bytes; 0 = no bound. `None` when the operator set none.
    disk_bytes: Option<u64>,
}

impl Settings {
    /// Reads the settings; they are looked at even while sessions are off.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let disk_mb = DISK_MB.int(lookup)?;
        Ok(Self {
            max: count(&MAX, lookup)?,
            max_per_caller: count(&MAX_PER_CALLER, lookup)?,
            max_per_owner: count(&MAX_PER_OWNER, lookup)?,
            lifetime: LIFETIME.duration(lookup)?.unwrap_or(Duration::from_secs(1800)),
            idle: IDLE.duration(lookup)?.unwrap_or(Duration::from_secs(300)),
            disk_bytes: disk_mb.map(|mb| u64::try_from(mb).unwrap_or_default() << 20),
        })
    }

    /// Whether any session is kept.
    pub const fn on(&self) -> bool {
        self.max > 0
    }

    /// Whether the provider can keep such sessions.
    ///
    /// # Errors
    /// Sessions are on and it keeps none, or a disk bound is set that it cannot enforce.
    pub fn check(&self, evidence: &Evidence) -> Result<(), SettingError> {
        if !self.on() {
            return Ok(());
        }
        let Some(support) = &evidence.sessions else {
            return Err(MAX.unusable(
                self.max,
                format!("provider {} keeps no sessions", evidence.provider),
                "unset it, or choose a provider that keeps sessions",
            ));
        };
        match self.disk_bytes {
            Some(bytes) if bytes > 0 && !support.disk_bound => Err(DISK_MB.unusable(
                bytes >> 20,
                format!("provider {} cannot bound what a session writes", evidence.provider),
                "set it to 0 or unset it",
            )),
            _ => Ok(()),
        }
    }

    /// The bound on what a session writes, in bytes, as far as the provider can enforce one; 0 = none.
    pub fn disk_bytes(&self, evidence: &Evidence) -> u64 {
        let bounded = evidence.sessions.as_ref().is_some_and(|support| support.disk_bound);
        if bounded { self.disk_bytes.unwrap_or(1 << 30) } else { 0 }
    }

    /// What Describe states.
    pub fn terms(&self) -> SessionTerms {
        SessionTerms {
            lifetime_ms: millis(self.lifetime),
            idle_timeout_ms: millis(self.idle),
            max_per_caller: self.max_per_caller,
            max_per_owner: self.max_per_owner,
        }
    }

    /// The lifetime an open that asks for this many milliseconds gets.
    pub(super) fn lifetime_of(&self, asked_ms: u32) -> Duration {
        shorter(asked_ms, self.lifetime)
    }

    /// The idle time an open that asks for this many milliseconds gets; zero = never suspended.
    pub(super) fn idle_of(&self, asked_ms: u32) -> Duration {
        let asked = if asked_ms == 0 { 0 } else { asked_ms.max(1000) };
        match (asked, self.idle.is_zero()) {
            (0, _) => self.idle,
            (_, true) => Duration::from_millis(asked.into()),
            (_, false) => shorter(asked, self.idle),
        }
    }
}

fn shorter(asked_ms: u32, own: Duration) -> Duration {
    match asked_ms {
        0 => own,
        ms => own.min(Duration::from_millis(ms.into())),
    }
}

/// Whole milliseconds of a duration of at most twelve hours.
pub(super) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn count(var: &Var, lookup: &dyn Lookup) -> Result<u32, SettingError> {
    let value = var.count(lookup)?;
    u32::try_from(value).map_err(|_| var.unusable(value, "does not fit 32 bits", "set a smaller number"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use plimsoll_core::SessionSupport;

    use super::*;

    fn read(values: &[(&str, &str)]) -> Result<Settings, String> {
        let lookup: BTreeMap<OsString, OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Settings::read(&lookup).map_err(|error| error.to_string())
    }

    fn keeping(disk_bound: bool) -> Evidence {
        Evidence {
            provider: "scripted",
            sessions: Some(SessionSupport {
                disk_bound,
                ..SessionSupport::default()
            }),
            ..Evidence::disabled()
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_reference_page() {
        let settings = read(&[]).unwrap();
        assert!(!settings.on());
        assert_eq!(settings.terms().lifetime_ms, 1_800_000);
        assert_eq!(settings.terms().idle_timeout_ms, 300_000);
        assert_eq!(settings.disk_bytes(&keeping(true)), 1024 << 20);
        assert_eq!(settings.disk_bytes(&keeping(false)), 0);
    }

    #[test]
    fn a_malformed_value_is_named_with_its_text_even_while_sessions_are_off() {
        for (name, value) in [
            ("SANDBOX_SESSION_LIFETIME", "30"),
            ("SANDBOX_SESSION_LIFETIME", "13h"),
            ("SANDBOX_SESSION_LIFETIME", "500ms"),
            ("SANDBOX_SESSION_LIFETIME", "0"),
            ("SANDBOX_SESSION_IDLE", "500ms"),
            ("SANDBOX_SESSION_IDLE", "13h"),
            ("SANDBOX_SESSION_IDLE", "1200h"),
            ("SANDBOX_SESSION_IDLE", "-1s"),
            ("SANDBOX_SESSION_DISK_MB", "1048577"),
            ("SANDBOX_SESSION_DISK_MB", "17592186044416"),
            ("SANDBOX_SESSION_DISK_MB", "-5"),
            ("SANDBOX_MAX_SESSIONS", "-1"),
            ("SANDBOX_MAX_SESSIONS_PER_OWNER", "two"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value:?}")), "{error}");
        }
        assert_eq!(read(&[("SANDBOX_SESSION_IDLE", "0")]).unwrap().idle, Duration::ZERO);
    }

    #[test]
    fn sessions_on_a_provider_that_keeps_none_stop_the_start() {
        let on = read(&[("SANDBOX_MAX_SESSIONS", "1")]).unwrap();
        let error = on.check(&Evidence::disabled()).unwrap_err().to_string();
        assert!(
            error.contains("SANDBOX_MAX_SESSIONS") && error.contains("disabled keeps no sessions"),
            "{error}"
        );
        assert_eq!(on.check(&keeping(false)), Ok(()));
        assert_eq!(read(&[]).unwrap().check(&Evidence::disabled()), Ok(()));
    }

    #[test]
    fn a_disk_bound_nobody_enforces_is_not_accepted() {
        let bound = read(&[("SANDBOX_MAX_SESSIONS", "1"), ("SANDBOX_SESSION_DISK_MB", "64")]).unwrap();
        let error = bound.check(&keeping(false)).unwrap_err().to_string();
        assert!(error.contains("SANDBOX_SESSION_DISK_MB"), "{error}");
        assert_eq!(bound.check(&keeping(true)), Ok(()));
        let unbound = read(&[("SANDBOX_MAX_SESSIONS", "1"), ("SANDBOX_SESSION_DISK_MB", "0")]).unwrap();
        assert_eq!(unbound.check(&keeping(false)), Ok(()));
    }

    #[test]
    fn an_open_may_ask_for_less_and_never_for_less_than_a_second_of_idleness() {
        let settings = read(&[("SANDBOX_SESSION_IDLE", "10s"), ("SANDBOX_SESSION_LIFETIME", "1m")]).unwrap();
        let idle = |ms| settings.idle_of(ms).as_millis();
        assert_eq!(
            [idle(0), idle(1), idle(999), idle(1500), idle(60_000)],
            [10_000, 1000, 1000, 1500, 10_000]
        );
        let lifetime = |ms| settings.lifetime_of(ms).as_millis();
        assert_eq!([lifetime(0), lifetime(1), lifetime(90_000)], [60_000, 1, 60_000]);
        let never = read(&[("SANDBOX_SESSION_IDLE", "0")]).unwrap();
        assert_eq!([never.idle_of(0).as_millis(), never.idle_of(1).as_millis()], [0, 1000]);
    }
}
