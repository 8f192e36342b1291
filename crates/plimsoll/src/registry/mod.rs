//! The providers there are, by name.
//!
//! A provider is one entry of [`PROVIDERS`]. Whoever serves or embeds asks for [`Choice::read`] and builds what it
//! finds; nothing else in the workspace knows provider names.

mod envelope;
mod planned;
mod wasm;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Resources, Tier};
use plimsoll_sandbox::{Disabled, Sandbox};

/// Names of the providers built into this program; a test compares them with [`PROVIDERS`].
const BUILT: &[&str] = &["wasm"];

/// Names of providers that do not exist yet.
const UNBUILT: &[&str] = &["docker", "e2b", "dockercloud", "openshell"];

/// Which provider runs the code.
pub const PROVIDER: Var = Var::new(
    "SANDBOX_PROVIDER",
    Kind::Provider {
        built: BUILT,
        planned: UNBUILT,
    },
    "",
    "Which provider runs the code. Built into this program: wasm. Unset: none, and every run is refused.",
);

/// The variables read here and by the providers, in groups.
pub const VARS: &[&[Var]] = &[&[PROVIDER], envelope::VARS];

/// Variables of providers that do not exist yet: setting one stops the start.
pub const PLANNED: &[Var] = planned::VARS;

/// Builds a provider for at most so many runs at once, with what it keeps between processes in a folder where one is given.
type Build = fn(Resources, u32, Option<&Path>) -> Result<Arc<dyn Sandbox>, SettingError>;

/// One provider that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The value of `SANDBOX_PROVIDER`.
    pub name: &'static str,
    /// Whether its sandboxes use this host's memory.
    pub on_host: bool,
    /// The strongest tier it can ever prove.
    pub strongest: Tier,
    /// Time limit of a run that asks for none.
    pub default_timeout: Duration,
    /// What it cannot enforce of an envelope.
    unenforceable: fn(Resources) -> Vec<SettingError>,
    /// Builds it: pure, no network, no sandbox.
    build: Build,
}

/// The providers built into this program.
pub const PROVIDERS: &[Entry] = &[Entry {
    name: "wasm",
    on_host: true,
    strongest: Tier::Process,
    default_timeout: plimsoll_wasm::DEFAULT_TIMEOUT,
    unenforceable: wasm::unenforceable,
    build: wasm::build,
}];

/// The provider the operator chose, with its resource envelope, before it is built.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    entry: Option<&'static Entry>,
    /// What one run may use, as the operator asked for it.
    pub resources: Resources,
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
        Ok(Self { entry, resources })
    }

    /// The provider of this name, with no envelope: its defaults.
    ///
    /// # Errors
    /// The provider is not built yet, or there is none of that name.
    pub fn named(name: &str) -> Result<Self, SettingError> {
        Ok(Self {
            entry: Some(Self::find(name)?),
            resources: Resources::default(),
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

    /// The strongest tier it can ever prove; `None` when nothing runs.
    pub fn strongest(&self) -> Option<Tier> {
        self.entry.map(|entry| entry.strongest)
    }

    /// Time limit of a run that asks for none; `None` when nothing runs.
    pub fn default_timeout(&self) -> Option<Duration> {
        self.entry.map(|entry| entry.default_timeout)
    }

    /// What the provider cannot enforce of the envelope: everything at once, where [`Choice::build`] stops at the first.
    pub fn unenforceable(&self) -> Vec<SettingError> {
        self.entry
            .map_or_else(Vec::new, |entry| (entry.unenforceable)(self.resources))
    }

    /// Builds the provider for at most `max_concurrent` runs at once.
    ///
    /// # Errors
    /// An envelope the provider cannot enforce.
    pub fn build(&self, max_concurrent: u32) -> Result<Arc<dyn Sandbox>, SettingError> {
        self.build_in(max_concurrent, None)
    }

    /// As [`Choice::build`]. A provider that can leave something for the next process, so that it starts sooner, does so
    /// in `folder`.
    pub(crate) fn build_in(
        &self,
        max_concurrent: u32,
        folder: Option<&Path>,
    ) -> Result<Arc<dyn Sandbox>, SettingError> {
        match self.entry {
            None => Ok(Arc::new(Disabled)),
            Some(entry) => (entry.build)(self.resources, max_concurrent, folder),
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
            let sandbox = (entry.build)(Resources::default(), 1, None).unwrap();
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
