//! The providers there are, by name (20 §3).
//!
//! A provider is one entry of [`PROVIDERS`]. Whoever serves or embeds asks for [`Choice::read`] and builds what it
//! finds; nothing else in the workspace knows provider names.

mod envelope;
mod planned;
mod wasm;

use std::sync::Arc;

use plimsoll_core::Resources;
use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_sandbox::{Disabled, Sandbox};

/// Every provider name, built or not.
const NAMES: &[&str] = &["wasm", "docker", "e2b", "dockercloud", "openshell"];

/// Which provider runs the code.
pub const PROVIDER: Var = Var::new(
    "SANDBOX_PROVIDER",
    Kind::OneOf(NAMES),
    "",
    "Which provider runs the code. Built into this program: wasm. Unset: none, and every run is refused.",
);

/// The variables read here and by the providers, in groups.
pub const VARS: &[&[Var]] = &[&[PROVIDER], envelope::VARS];

/// Variables of providers that do not exist yet: setting one stops the start.
pub const PLANNED: &[Var] = planned::VARS;

/// One provider that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The value of `SANDBOX_PROVIDER`.
    pub name: &'static str,
    /// Whether its sandboxes use this host's memory (20 §8.2).
    pub on_host: bool,
    /// Builds it: pure, no network, no sandbox.
    build: fn(Resources, u32) -> Result<Arc<dyn Sandbox>, SettingError>,
}

/// The providers built into this program.
pub const PROVIDERS: &[Entry] = &[Entry {
    name: "wasm",
    on_host: true,
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
            let built: Vec<&str> = PROVIDERS.iter().map(|entry| entry.name).collect();
            let problem = if NAMES.contains(&name) {
                format!("the {name} provider is not built yet")
            } else {
                format!("not one of {}", NAMES.join(", "))
            };
            PROVIDER.unusable(
                name,
                problem,
                format!("set it to {}, or unset it to run nothing", built.join(" or ")),
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

    /// Builds the provider for at most `max_concurrent` runs at once.
    ///
    /// # Errors
    /// An envelope the provider cannot enforce.
    pub fn build(&self, max_concurrent: u32) -> Result<Arc<dyn Sandbox>, SettingError> {
        match self.entry {
            None => Ok(Arc::new(Disabled)),
            Some(entry) => (entry.build)(self.resources, max_concurrent),
        }
    }
}
