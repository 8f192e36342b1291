//! How many sessions are kept and for how long, and how that is read.

use std::time::Duration;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Evidence, SessionTerms};
use plimsoll_sandbox::{DEFAULT_SESSION_DISK_MB, SESSION_DISK_MB, Sandbox, session_disk_mb};

const COUNT: Kind = Kind::Int {
    min: 0,
    max: u32::MAX as i64,
};
const SECOND: Duration = Duration::from_secs(1);
const TWELVE_HOURS: Duration = Duration::from_secs(12 * 3600);

const MAX: Var = Var::new(
    "SANDBOX_MAX_SESSIONS",
    COUNT,
    "0",
    "Sessions kept at once, suspended ones included; 0 turns sessions off. A session that runs takes one of \
     SANDBOX_MAX_CONCURRENT, and gives it back while it is suspended if the provider then frees its memory. What it holds \
     all the same is counted: each SANDBOX_MEMORY_MB of it (256 when that is unset) takes the place of a run, of all \
     together and of its caller.",
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

const POOL: Var = Var::new(
    "SANDBOX_SESSION_POOL",
    COUNT,
    "0",
    "Session sandboxes kept ready for the next opens, each counted as the memory of a run. At most SANDBOX_MAX_SESSIONS, and \
     only with a provider that has a session pool.",
);

/// The variables read here.
pub const VARS: &[Var] = &[
    MAX,
    MAX_PER_CALLER,
    MAX_PER_OWNER,
    LIFETIME,
    IDLE,
    SESSION_DISK_MB,
    POOL,
];

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
    /// Session sandboxes kept ready; 0 unless sessions are on.
    pub pool: u32,
}

impl Settings {
    /// Reads the settings; they are looked at even while sessions are off.
    ///
    /// # Errors
    /// The first value that cannot be used, by itself or with the others.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let disk_mb = session_disk_mb(lookup)?;
        let (max, pool) = (count(&MAX, lookup)?, count(&POOL, lookup)?);
        if pool > max {
            return Err(match max {
                0 => POOL.unusable(pool, "sessions are off", "set SANDBOX_MAX_SESSIONS, or unset it"),
                _ => POOL.unusable(
                    pool,
                    format!("above SANDBOX_MAX_SESSIONS, which is {max}"),
                    format!("set it to at most {max}, or raise SANDBOX_MAX_SESSIONS"),
                ),
            });
        }
        Ok(Self {
            max,
            pool,
            max_per_caller: count(&MAX_PER_CALLER, lookup)?,
            max_per_owner: count(&MAX_PER_OWNER, lookup)?,
            lifetime: LIFETIME.duration(lookup)?.unwrap_or(Duration::from_secs(1800)),
            idle: IDLE.duration(lookup)?.unwrap_or(Duration::from_secs(300)),
            disk_bytes: disk_mb.map(in_bytes),
        })
    }

    /// Whether any session is kept.
    pub const fn on(&self) -> bool {
        self.max > 0
    }

    /// Whether the provider can keep such sessions.
    ///
    /// # Errors
    /// Everything it cannot do of what is asked: sessions at all, or else a disk bound and a pool.
    pub fn check(&self, sandbox: &dyn Sandbox) -> Result<(), Vec<SettingError>> {
        if !self.on() {
            return Ok(());
        }
        let evidence = sandbox.evidence();
        let (Some(support), Some(sessions)) = (&evidence.sessions, sandbox.sessions()) else {
            return Err(vec![MAX.unusable(
                self.max,
                format!("provider {} keeps no sessions", evidence.provider),
                "unset it, or choose a provider that keeps sessions",
            )]);
        };
        let mut problems = Vec::new();
        if let Some(bytes) = self.disk_bytes.filter(|bytes| *bytes > 0 && !support.disk_bound) {
            problems.push(SESSION_DISK_MB.unusable(
                bytes >> 20,
                format!("provider {} cannot bound what a session writes", evidence.provider),
                "set it to 0 or unset it",
            ));
        }
        if self.pool > 0 && sessions.pool().is_none() {
            problems.push(POOL.unusable(
                self.pool,
                format!("provider {} keeps no session sandboxes ready", evidence.provider),
                "set it to 0 or unset it",
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// What an operator should know of sessions that keep their slots while they are suspended; `None` where they do not, or
    /// leave a slot for runs.
    pub fn warning(&self, sandbox: &dyn Sandbox, max_concurrent: u32) -> Option<String> {
        let keeps_slot = sandbox
            .sessions()
            .is_some_and(|sessions| sessions.suspended_keeps_slot());
        (keeps_slot && self.max >= max_concurrent).then(|| {
            format!(
                "SANDBOX_MAX_SESSIONS={} can take all {max_concurrent} runs this daemon does at once: on provider {} a suspended \
                 session keeps its slot",
                self.max,
                sandbox.evidence().provider
            )
        })
    }

    /// The bound on what a session writes, in bytes, as far as the provider can enforce one; 0 = none.
    pub fn disk_bytes(&self, evidence: &Evidence) -> u64 {
        let bounded = evidence.sessions.as_ref().is_some_and(|support| support.disk_bound);
        let asked = self.disk_bytes.unwrap_or(in_bytes(DEFAULT_SESSION_DISK_MB));
        if bounded { asked } else { 0 }
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

fn in_bytes(mb: u32) -> u64 {
    u64::from(mb) << 20
}

fn count(var: &Var, lookup: &dyn Lookup) -> Result<u32, SettingError> {
    let value = var.count(lookup)?;
    u32::try_from(value).map_err(|_| var.unusable(value, "does not fit 32 bits", "set a smaller number"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use std::sync::Arc;

    use plimsoll_core::{AdmittedOpen, Outcome, RunError, SessionSupport};
    use plimsoll_sandbox::{
        AdmittedCall, BoxFuture, Disabled, OpenContext, ProviderFault, RunContext, Session, SessionPool, Sessions,
    };

    use super::*;

    /// A provider that keeps sessions and is never asked for one.
    #[derive(Clone, Copy, Default)]
    struct Keeping {
        disk_bound: bool,
        pool: bool,
        keeps_slot: bool,
    }

    impl Sandbox for Keeping {
        fn evidence(&self) -> Arc<Evidence> {
            Arc::new(keeping(self.disk_bound))
        }

        fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn time_limit(&self, _: &AdmittedCall) -> Duration {
            SECOND
        }

        fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
            Box::pin(std::future::pending())
        }

        fn sessions(&self) -> Option<&dyn Sessions> {
            Some(self)
        }
    }

    impl Sessions for Keeping {
        fn open<'a>(
            &'a self,
            _: &'a AdmittedOpen,
            _: OpenContext,
        ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
            Box::pin(std::future::pending())
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn suspended_keeps_slot(&self) -> bool {
            self.keeps_slot
        }

        fn pool(&self) -> Option<&dyn SessionPool> {
            self.pool.then_some(self as &dyn SessionPool)
        }
    }

    impl SessionPool for Keeping {
        fn start(&self, _: u32, _: Duration) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// What is wrong with these settings on this provider.
    fn problems(values: &[(&str, &str)], sandbox: &dyn Sandbox) -> Vec<String> {
        match read(values).unwrap().check(sandbox) {
            Ok(()) => Vec::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

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
            ("SANDBOX_SESSION_POOL", "two"),
            ("SANDBOX_SESSION_POOL", "-1"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value:?}")), "{error}");
        }
        assert_eq!(read(&[("SANDBOX_SESSION_IDLE", "0")]).unwrap().idle, Duration::ZERO);
    }

    #[test]
    fn sessions_on_a_provider_that_keeps_none_stop_the_start() {
        let found = problems(&[("SANDBOX_MAX_SESSIONS", "1")], &Disabled);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("SANDBOX_MAX_SESSIONS") && found[0].contains("disabled keeps no sessions"),
            "{found:?}"
        );
        assert!(problems(&[("SANDBOX_MAX_SESSIONS", "1")], &Keeping::default()).is_empty());
        assert!(problems(&[], &Disabled).is_empty());
    }

    #[test]
    fn what_the_provider_cannot_do_for_its_sessions_is_told_at_once() {
        let asked = [
            ("SANDBOX_MAX_SESSIONS", "4"),
            ("SANDBOX_SESSION_DISK_MB", "64"),
            ("SANDBOX_SESSION_POOL", "2"),
        ];
        let found = problems(&asked, &Keeping::default());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("SANDBOX_SESSION_DISK_MB=\"64\""), "{found:?}");
        assert!(found[1].contains("SANDBOX_SESSION_POOL=\"2\""), "{found:?}");
        let able = Keeping {
            disk_bound: true,
            pool: true,
            ..Keeping::default()
        };
        assert!(problems(&asked, &able).is_empty());
        let nothing = [
            ("SANDBOX_MAX_SESSIONS", "1"),
            ("SANDBOX_SESSION_DISK_MB", "0"),
            ("SANDBOX_SESSION_POOL", "0"),
        ];
        assert!(problems(&nothing, &Keeping::default()).is_empty());
    }

    #[test]
    fn a_pool_needs_sessions_and_at_least_as_many() {
        for (values, words) in [
            (&[("SANDBOX_SESSION_POOL", "1")][..], "sessions are off"),
            (
                &[("SANDBOX_SESSION_POOL", "5"), ("SANDBOX_MAX_SESSIONS", "4")],
                "above SANDBOX_MAX_SESSIONS, which is 4",
            ),
        ] {
            let error = read(values).unwrap_err();
            assert!(
                error.contains("SANDBOX_SESSION_POOL") && error.contains(words),
                "{error}"
            );
        }
        let settings = read(&[("SANDBOX_SESSION_POOL", "4"), ("SANDBOX_MAX_SESSIONS", "4")]).unwrap();
        assert_eq!(settings.pool, 4);
    }

    #[test]
    fn sessions_that_can_take_every_slot_for_good_are_warned_of() {
        let settings = read(&[("SANDBOX_MAX_SESSIONS", "8")]).unwrap();
        let freezing = Keeping {
            keeps_slot: true,
            ..Keeping::default()
        };
        let warning = settings.warning(&freezing, 8).unwrap();
        assert!(
            warning.contains("SANDBOX_MAX_SESSIONS=8") && warning.contains("scripted"),
            "{warning}"
        );
        assert_eq!(settings.warning(&freezing, 9), None);
        assert_eq!(settings.warning(&Keeping::default(), 8), None);
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
