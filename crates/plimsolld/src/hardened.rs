//! Hardened mode: the daemon serves only while every rule holds.
//!
//! The rules are a pure function over what was configured ([`Facts`]). They are judged twice and reported together each time:
//! before anything is bound or started, all but the first; and once the provider has proven its tier, all of them. Rules 7 to
//! 11, about a provider's own settings, are stated by its entry in the registry ([`plimsoll::registry::Violation`]).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll::registry::{Terms, Violation};
use plimsoll_core::vars::HostPort;
use plimsoll_core::{Isolation, Tier};
use plimsoll_service::auth::{Mode, Registry};
use plimsoll_service::limiter::Limits;
use plimsoll_service::sessions;
use plimsoll_service::settings::{HARDENED_OPEN_PROFILES, is_loopback};
use plimsoll_service::tls::Tls;

/// What the rules look at. What could not be read is `None`: it is an error of its own, and no rule guesses at it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) callers: Option<Callers>,
    /// Whether `PLIMSOLL_INSECURE` holds anything but white space.
    pub(crate) insecure: bool,
    /// The inner one is `None` where the listeners speak in clear.
    pub(crate) tls: Option<Option<Tls>>,
    pub(crate) rpc: Option<HostPort>,
    /// `None` also where the listener is off.
    pub(crate) metrics: Option<HostPort>,
    /// `None` also where the provider serves no guard.
    pub(crate) guard: Option<HostPort>,
    /// What the provider states: what of rules 7 to 11 does not hold, whether it is metered.
    pub(crate) provider: Option<Terms>,
    pub(crate) limits: Option<Limits>,
    pub(crate) sessions: Option<sessions::Settings>,
    /// Variables that begin like ours and that nothing reads.
    pub(crate) unknown: Vec<String>,
    /// Grant profiles open to every caller that nobody has acknowledged.
    pub(crate) open_profiles: Vec<String>,
}

impl Facts {
    fn metered(&self) -> bool {
        self.provider.as_ref().is_some_and(|terms| terms.metered)
    }

    /// What the rules have against another registry in the place of the one that was read.
    pub(crate) fn objections(&self, registry: &Registry) -> Vec<Violation> {
        of_registry(self.metered(), registry.writable_by_others, &registry.without_allowance)
    }
}

/// How callers are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    Registry {
        writable_by_others: bool,
        /// The ids of callers without a paid allowance of their own.
        without_allowance: Vec<String>,
    },
    Token,
    Open,
}

impl From<&Mode> for Callers {
    fn from(mode: &Mode) -> Self {
        match mode {
            Mode::Registry(registry) => Self::Registry {
                writable_by_others: registry.writable_by_others,
                without_allowance: registry.without_allowance.clone(),
            },
            Mode::Token(_) => Self::Token,
            Mode::Open(_) => Self::Open,
        }
    }
}

/// The rules that do not hold, and why none of this provider's configurations could if that is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    violations: Vec<Violation>,
    never: Option<String>,
}

impl Report {
    /// A line a rule, after one that says what this is.
    pub(crate) fn lines(&self) -> Vec<String> {
        let count = self.violations.len();
        let rules = if count == 1 {
            "1 rule does"
        } else {
            &format!("{count} rules do")
        };
        let heading = format!("hardened mode (PLIMSOLL_HARDENED) refuses to serve: {rules} not hold");
        let violations = self.violations.iter().map(ToString::to_string);
        [heading]
            .into_iter()
            .chain(violations)
            .chain(self.never.clone())
            .collect()
    }
}

/// All of it in one line, for the log.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("; "))
    }
}

impl std::error::Error for Report {}

/// Judges the rules as of now: all but the first, or with what was proven all of them.
///
/// # Errors
/// Everything that does not hold.
pub(crate) fn judge(facts: &Facts, proven: Option<Isolation>) -> Result<(), Report> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let violations = violations(facts, proven, now);
    if violations.is_empty() {
        return Ok(());
    }
    Err(Report {
        violations,
        never: facts.provider.as_ref().and_then(|terms| terms.never.clone()),
    })
}

/// The rules that do not hold at a moment, in their order. Rule 1 is asked only where something was proven.
pub(crate) fn violations(facts: &Facts, proven: Option<Isolation>, now: Duration) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut violated = |rule: u8, problem: String| found.push(Violation::new(rule, problem));
    if let Some(proven) = proven
        && !proven.meets(Some(Tier::Kernel))
    {
        violated(
            1,
            format!("the tier proven is {proven}; choose a provider and a runtime that prove kernel or vm"),
        );
    }
    match &facts.callers {
        Some(Callers::Token) => violated(
            2,
            "callers share PLIMSOLL_TOKEN; set PLIMSOLL_CLIENTS_FILE, and unset the token".to_owned(),
        ),
        Some(Callers::Open) => violated(2, "nobody has to authenticate; set PLIMSOLL_CLIENTS_FILE".to_owned()),
        Some(Callers::Registry { .. }) | None => {}
    }
    if facts.insecure {
        violated(3, "PLIMSOLL_INSECURE is set; unset it, whatever its value".to_owned());
    }
    if let Some(None) = facts.tls {
        for (rule, variable, addr) in [
            (4, "PLIMSOLL_ADDR", &facts.rpc),
            (5, "PLIMSOLL_METRICS_ADDR", &facts.metrics),
            (6, "PLIMSOLL_GUARD_ADDR", &facts.guard),
        ] {
            if let Some(addr) = addr.as_ref().filter(|addr| !is_loopback(addr)) {
                violated(
                    rule,
                    format!(
                        "{variable}={addr} is reached from other hosts in clear; set PLIMSOLL_TLS_CERT and PLIMSOLL_TLS_KEY, or \
                         a loopback address"
                    ),
                );
            }
        }
    }
    for violation in facts.provider.iter().flat_map(|terms| &terms.violations) {
        violated(violation.rule, violation.problem.clone());
    }
    if let Some(limits) = &facts.limits {
        of_limits(limits, &mut violated);
    }
    if facts
        .sessions
        .is_some_and(|sessions| sessions.on() && sessions.max_per_caller == 0)
    {
        violated(
            16,
            "SANDBOX_MAX_SESSIONS_PER_CALLER is 0, so one caller can take every session; set it above 0".to_owned(),
        );
    }
    if !facts.unknown.is_empty() {
        violated(
            18,
            format!(
                "nothing reads a variable of this name: {}; correct or unset it",
                facts.unknown.join(", ")
            ),
        );
    }
    for name in &facts.open_profiles {
        violated(
            19,
            format!(
                "grant profile {name:?} is open to every caller; name its allowed_callers, or acknowledge it in {}",
                HARDENED_OPEN_PROFILES.name
            ),
        );
    }
    if let Some(problem) = facts.tls.iter().flatten().find_map(|tls| tls.out_of_date(now)) {
        violated(21, format!("{problem}; renew it"));
    }
    if let Some(Callers::Registry {
        writable_by_others,
        without_allowance,
    }) = &facts.callers
    {
        found.extend(of_registry(facts.metered(), *writable_by_others, without_allowance));
    }
    found.sort_by_key(|violation| violation.rule);
    found
}

/// Rules 12 to 15.
fn of_limits(limits: &Limits, violated: &mut impl FnMut(u8, String)) {
    if limits.rate_per_min == 0 {
        violated(
            12,
            "SANDBOX_RATE_PER_MIN is 0, which is no limit; set it above 0".to_owned(),
        );
    } else if limits.rate_burst > limits.rate_per_min {
        violated(
            13,
            format!(
                "SANDBOX_RATE_BURST is {}, above SANDBOX_RATE_PER_MIN, which is {}; lower it, or unset it",
                limits.rate_burst, limits.rate_per_min
            ),
        );
    }
    if limits.per_key_concurrent == 0 {
        violated(
            14,
            "SANDBOX_PER_KEY_CONCURRENT is 0, which is no cap; set it above 0".to_owned(),
        );
    } else if limits.per_key_concurrent >= limits.max_concurrent {
        violated(
            15,
            format!(
                "SANDBOX_PER_KEY_CONCURRENT is {}, and {} runs are done at once, so one caller can take them all; lower it, or \
                 raise SANDBOX_MAX_CONCURRENT",
                limits.per_key_concurrent, limits.max_concurrent
            ),
        );
    }
}

/// The rules that read the caller registry, 17 and 20.
fn of_registry(metered: bool, writable_by_others: bool, without_allowance: &[String]) -> Vec<Violation> {
    let mut found = Vec::new();
    if metered && !without_allowance.is_empty() {
        let problem = format!(
            "the provider is paid by the second, and these callers have no paid_seconds_per_day: {}; give each of them one",
            without_allowance.join(", ")
        );
        found.push(Violation::new(17, problem));
    }
    if writable_by_others {
        let problem = "PLIMSOLL_CLIENTS_FILE can be written by group or others; take that permission away (chmod go-w)";
        found.push(Violation::new(20, problem));
    }
    found
}

#[cfg(test)]
mod tests;
