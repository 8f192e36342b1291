//! The providers there are, by name.
//!
//! A provider is one entry of [`PROVIDERS`]. Whoever serves or embeds asks for [`Choice::read`] and builds what it
//! finds; nothing else in the workspace knows provider names.

mod docker;
mod envelope;
mod hardened;
mod minimum;
mod planned;
mod pool;
mod wasm;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Resources, Tier};
use plimsoll_sandbox::{Disabled, Sandbox};

pub use hardened::{Terms, Violation};
pub use minimum::Minimum;

use hardened::Hardened;

/// Names of the providers built into this program; a test compares them with [`PROVIDERS`].
const BUILT: &[&str] = &["wasm", "docker"];

/// Names of providers that do not exist yet.
const UNBUILT: &[&str] = &["e2b", "dockercloud", "openshell"];

/// Which provider runs the code.
pub const PROVIDER: Var = Var::new(
    "SANDBOX_PROVIDER",
    Kind::Provider {
        built: BUILT,
        planned: UNBUILT,
    },
    "",
    "Which provider runs the code. Built into this program: wasm, docker. Unset: none, and every run is refused.",
);

/// The variables read here and by the providers, in groups.
pub const VARS: &[&[Var]] = &[
    &[PROVIDER],
    minimum::VARS,
    envelope::VARS,
    pool::VARS,
    plimsoll_docker::settings::SETTINGS,
    plimsoll_docker::endpoint::VARS,
];

/// Variables of providers that do not exist yet: setting one stops the start.
pub const PLANNED: &[Var] = planned::VARS;

/// What a provider is built for.
#[derive(Clone, Copy)]
struct BuildPlan<'a> {
    /// What one run may use.
    resources: Resources,
    /// Runs at once.
    max_concurrent: u32,
    /// Sandboxes of each kind that wait ready.
    ready_pool: u32,
    /// Where to keep what the next process can use, if anywhere.
    folder: Option<&'a Path>,
    /// The provider's own variables.
    lookup: &'a dyn Lookup,
}

type Build = fn(&BuildPlan<'_>) -> Result<Arc<dyn Sandbox>, SettingError>;

/// One provider that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The value of `SANDBOX_PROVIDER`.
    pub name: &'static str,
    /// Whether its sandboxes use this host's memory.
    pub on_host: bool,
    /// Whether it speaks to nobody outside this process, and leaves nothing behind when the process ends.
    pub in_process: bool,
    /// Present where the operator pays for it by the second: how long after a run its sandbox may go on to be paid for.
    pub metered: Option<Duration>,
    /// The strongest tier it can ever prove.
    pub strongest: Tier,
    /// Time limit of a snippet that asks for none.
    pub default_timeout: Duration,
    /// Kinds of sandbox it keeps ready, each in the number of `SANDBOX_READY_POOL`; 0 where it keeps none.
    pub pooled_kinds: u32,
    /// What hardened mode asks of its settings.
    hardened: Hardened,
    /// What it cannot enforce of an envelope.
    unenforceable: fn(Resources) -> Vec<SettingError>,
    /// Builds it: pure, no network, no sandbox.
    build: Build,
}

/// The providers built into this program.
pub const PROVIDERS: &[Entry] = &[
    Entry {
        name: "wasm",
        on_host: true,
        in_process: true,
        metered: None,
        strongest: Tier::Process,
        default_timeout: plimsoll_wasm::DEFAULT_TIMEOUT,
        pooled_kinds: 0,
        hardened: Hardened::PLAIN,
        unenforceable: wasm::unenforceable,
        build: wasm::build,
    },
    Entry {
        name: "docker",
        on_host: true,
        in_process: false,
        metered: None,
        strongest: Tier::Kernel,
        default_timeout: plimsoll_docker::provider::DEFAULT_SNIPPET_TIMEOUT,
        // Snippets and projects: two image settings, and containers that differ in /work even where the image is one.
        pooled_kinds: 2,
        hardened: docker::HARDENED,
        unenforceable: docker::unenforceable,
        build: docker::build,
    },
];

/// The provider the operator chose, with its resource envelope, before it is built.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    entry: Option<&'static Entry>,
    /// What one run may use, as the operator asked for it.
    pub resources: Resources,
    /// Sandboxes of each kind that wait ready.
    pub ready_pool: u32,
}

impl Choice {
    /// Reads `SANDBOX_PROVIDER` and the envelope. The envelope is read even when no provider is chosen, so that a
    /// malformed value is never passed over.
    ///
    /// # Errors
    /// An unknown provider, one that is not built yet, or a malformed envelope.
    pub fn read(lookup: &dyn Lookup) -> Result<Self, SettingError> {
        let resources = envelope::read(lookup)?;
        let entry = PROVIDER.word(lookup)?.map(Self::find).transpose()?;
        let name = entry.map_or("disabled", |entry| entry.name);
        if name != "docker" {
            docker::unused(lookup, name)?;
        }
        Ok(Self {
            entry,
            resources,
            ready_pool: pool::read(lookup, name, entry.map_or(0, |entry| entry.pooled_kinds))?,
        })
    }

    /// The provider of this name, with no envelope: its defaults.
    ///
    /// # Errors
    /// The provider is not built yet, or there is none of that name.
    pub fn named(name: &str) -> Result<Self, SettingError> {
        Ok(Self {
            entry: Some(Self::find(name)?),
            resources: Resources::default(),
            ready_pool: 0,
        })
    }

    fn find(name: &str) -> Result<&'static Entry, SettingError> {
        PROVIDERS.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let problem = if UNBUILT.contains(&name) {
                format!("the {name} provider is not built yet")
            } else {
                format!("not {}", PROVIDER.kind)
            };
            PROVIDER.unusable(
                name,
                problem,
                format!("set it to {}, or unset it to run nothing", BUILT.join(" or ")),
            )
        })
    }

    /// The provider's name; `disabled` when none is chosen.
    pub fn name(&self) -> &'static str {
        self.entry.map_or("disabled", |entry| entry.name)
    }

    /// Whether anything can run at all.
    pub const fn executes(&self) -> bool {
        self.entry.is_some()
    }

    /// Whether its sandboxes use this host's memory.
    pub fn on_host(&self) -> bool {
        self.entry.is_some_and(|entry| entry.on_host)
    }

    /// Whether it speaks to nobody outside this process, and leaves nothing behind when the process ends.
    pub fn in_process(&self) -> bool {
        self.entry.is_none_or(|entry| entry.in_process)
    }

    /// The strongest tier it can ever prove; `None` when nothing runs.
    pub fn strongest(&self) -> Option<Tier> {
        self.entry.map(|entry| entry.strongest)
    }

    /// Time limit of a run that asks for none; `None` when nothing runs.
    pub fn default_timeout(&self) -> Option<Duration> {
        self.entry.map(|entry| entry.default_timeout)
    }

    /// Sandboxes that wait ready, of all kinds together: each holds the memory of a run.
    pub fn pooled(&self) -> u32 {
        self.entry
            .map_or(0, |entry| entry.pooled_kinds.saturating_mul(self.ready_pool))
    }

    /// Whether the ready pool goes with the runs at once that are in force.
    ///
    /// # Errors
    /// It holds more than may run.
    pub fn pool_within(&self, max_concurrent: u32) -> Result<(), SettingError> {
        pool::within(self.ready_pool, max_concurrent)
    }

    /// What the provider cannot enforce of the envelope: everything at once, where [`Choice::build`] stops at the first.
    pub fn unenforceable(&self) -> Vec<SettingError> {
        self.entry
            .map_or_else(Vec::new, |entry| (entry.unenforceable)(self.resources))
    }

    /// Builds the provider for at most `max_concurrent` runs at once, from its own variables.
    ///
    /// # Errors
    /// An envelope the provider cannot enforce, or a variable of its own that it cannot use.
    pub fn build(&self, max_concurrent: u32, lookup: &dyn Lookup) -> Result<Arc<dyn Sandbox>, SettingError> {
        self.build_in(max_concurrent, lookup, None)
    }

    /// As [`Choice::build`]. A provider that can leave something for the next process, so that it starts sooner, does so
    /// in `folder`.
    pub(crate) fn build_in(
        &self,
        max_concurrent: u32,
        lookup: &dyn Lookup,
        folder: Option<&Path>,
    ) -> Result<Arc<dyn Sandbox>, SettingError> {
        match self.entry {
            None => Ok(Arc::new(Disabled)),
            Some(entry) => (entry.build)(&BuildPlan {
                resources: self.resources,
                max_concurrent,
                ready_pool: self.ready_pool,
                folder,
                lookup,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_messages_are_those_of_the_providers() {
        let names: Vec<&str> = PROVIDERS.iter().map(|entry| entry.name).collect();
        assert_eq!(names, BUILT);
        assert!(BUILT.iter().all(|name| !UNBUILT.contains(name)));
    }

    #[test]
    fn no_provider_proves_more_than_its_strongest_tier() {
        for entry in PROVIDERS {
            let sandbox = (entry.build)(&BuildPlan {
                resources: Resources::default(),
                max_concurrent: 1,
                ready_pool: 0,
                folder: None,
                lookup: &std::collections::BTreeMap::new(),
            })
            .unwrap();
            let proven = sandbox.evidence().isolation;
            assert!(
                Tier::ALL
                    .iter()
                    .all(|tier| *tier <= entry.strongest || !proven.meets(Some(*tier))),
                "{} {proven}",
                entry.name
            );
        }
    }
}
