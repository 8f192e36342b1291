//! What hardened mode asks of a provider: each entry of the registry states it, so that a rule arrives with its provider.
//!
//! The rules are numbered as in `docs/hardened.md`. Those of the daemon itself are the daemon's; here are the ones about a
//! provider's own settings, 7 to 11. They read the values as they were set, defaults do not count, and one that cannot be read
//! breaks its rule.

use std::fmt;

use plimsoll_core::vars::{Lookup, parse_float};
use plimsoll_core::{Resources, Tier};
use plimsoll_docker::settings::REQUIRE_PINNED_IMAGES;

use super::envelope::{CPUS, DISK_MB, MEMORY_MB};
use super::{Choice, Entry, PROVIDER};

/// A rule of hardened mode that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub rule: u8,
    /// What is wrong, and what to do about it.
    pub problem: String,
}

impl Violation {
    /// Of the rule with this number.
    pub fn new(rule: u8, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { rule, problem }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.problem)
    }
}

/// What an entry states for hardened mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardened {
    /// The limits that must be set and above 0, by variable (rule 11).
    pub(super) envelope: &'static [&'static str],
    /// Whether `SANDBOX_REQUIRE_PINNED_IMAGES` must be true (rule 10). A provider with a rule of its own about its images
    /// has it in `settings`.
    pub(super) pinned_images: bool,
    /// What else must hold of the provider's own variables (rules 7 to 9).
    pub(super) settings: fn(&dyn Lookup) -> Vec<Violation>,
}

impl Hardened {
    /// Of a provider about which nothing else is known.
    pub(super) const PLAIN: Self = Self {
        envelope: &[MEMORY_MB.name, CPUS.name, DISK_MB.name],
        pinned_images: false,
        settings: |_| Vec::new(),
    };
}

/// How the chosen provider stands to hardened mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The rules about its own settings that do not hold, 7 to 11.
    pub violations: Vec<Violation>,
    /// Why none of its configurations holds every rule; `None` where one may.
    pub never: Option<String>,
    /// Whether the operator pays for it by the second.
    pub metered: bool,
}

impl Terms {
    /// Of the provider that is named, also where its settings cannot be read; `None` where the name cannot.
    pub fn read(lookup: &dyn Lookup) -> Option<Self> {
        let name = PROVIDER.word(lookup).ok()?;
        let entry = name.map(Choice::find).transpose().ok()?;
        Some(Self::of(entry, lookup))
    }

    fn of(entry: Option<&Entry>, lookup: &dyn Lookup) -> Self {
        Self {
            violations: violations(entry, lookup),
            never: never(entry),
            metered: entry.is_some_and(|entry| entry.metered.is_some()),
        }
    }
}

fn violations(entry: Option<&Entry>, lookup: &dyn Lookup) -> Vec<Violation> {
    let Hardened {
        envelope,
        pinned_images,
        settings,
    } = entry.map_or(Hardened::PLAIN, |entry| entry.hardened);
    let mut found = settings(lookup);
    if pinned_images {
        found.extend(unpinned(10, lookup));
    }
    found.extend(unbounded(envelope, lookup));
    found
}

fn never(entry: Option<&Entry>) -> Option<String> {
    let Some(entry) = entry else {
        return Some(
            "hardened mode can never hold without a provider: nothing runs, so no tier is proven (rule 1)".to_owned(),
        );
    };
    let mut reasons = Vec::new();
    if entry.strongest < Tier::Kernel {
        reasons.push(format!("it proves {} at most (rule 1)", entry.strongest));
    }
    let all = Resources {
        memory_mb: 1,
        cpus: 1.0,
        pids: 1,
        disk_mb: 1,
    };
    let refused = (entry.unenforceable)(all);
    let refused: Vec<&str> = refused
        .iter()
        .map(plimsoll_core::vars::SettingError::variable)
        .filter(|name| entry.hardened.envelope.contains(name))
        .collect();
    if !refused.is_empty() {
        reasons.push(format!(
            "it cannot enforce {}, and refuses them (rule 11)",
            refused.join(" and ")
        ));
    }
    (!reasons.is_empty()).then(|| {
        format!(
            "hardened mode can never hold on provider {}: {}",
            entry.name,
            reasons.join(", and ")
        )
    })
}

/// The violation of a rule that wants images pinned, if it does not hold.
pub(super) fn unpinned(rule: u8, lookup: &dyn Lookup) -> Option<Violation> {
    let name = REQUIRE_PINNED_IMAGES.name;
    match REQUIRE_PINNED_IMAGES.bool(lookup) {
        Ok(true) => None,
        Ok(false) => Some(Violation::new(rule, format!("{name} is not true; set it to true"))),
        Err(_) => Some(Violation::new(rule, format!("{name} cannot be read; set it to true"))),
    }
}

/// Rule 11.
fn unbounded(envelope: &[&str], lookup: &dyn Lookup) -> Option<Violation> {
    let (mut missing, mut not_positive) = (Vec::new(), Vec::new());
    for name in envelope.iter().copied() {
        match lookup.get(name).map(|value| value.to_str().map(str::trim)) {
            None | Some(Some("")) => missing.push(name),
            Some(Some(text)) if parse_float(text).is_some_and(|value| value > 0.0) => {}
            Some(_) => not_positive.push(name),
        }
    }
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("not set: {}", missing.join(", ")));
    }
    if !not_positive.is_empty() {
        parts.push(format!("not above 0: {}", not_positive.join(", ")));
    }
    (!parts.is_empty()).then(|| {
        Violation::new(
            11,
            format!(
                "limits that must be chosen are {}; set each to a number above 0",
                parts.join("; ")
            ),
        )
    })
}

#[cfg(test)]
mod tests;
