//! Configuring the embedded JavaScript provider.

use super::Sandbox;
use super::capacity::{Capacity, PER_RUN_DEFAULT_MB};
use super::error::BuildError;
use crate::env::Environment;
use crate::registry::Choice;

/// How many runs may be in progress at once unless the builder says otherwise; the daemon's default as well.
const DEFAULT_CONCURRENT: u32 = 8;

/// The embedded JavaScript provider, tier `process`, before it is built.
///
/// | Setting | Default |
/// |---|---|
/// | memory of one run | 256 MiB |
/// | runs at once | 8 |
/// | memory of all runs together | no bound of its own |
/// | timeout of a run that asks for none | 5 s, at most 30 s |
#[must_use = "a builder does nothing until it is built"]
#[derive(Clone, Debug)]
pub struct WasmBuilder {
    memory_mb: Option<u32>,
    max_concurrent: u32,
    total_memory_mb: Option<u32>,
}

impl Default for WasmBuilder {
    fn default() -> Self {
        Self {
            memory_mb: None,
            max_concurrent: DEFAULT_CONCURRENT,
            total_memory_mb: None,
        }
    }
}

impl WasmBuilder {
    /// Memory of one run in MiB. A run that needs more fails inside; what the engine itself needs is the minimum.
    pub const fn memory_mb(mut self, memory_mb: u32) -> Self {
        self.memory_mb = Some(memory_mb);
        self
    }

    /// At most this many runs at once; one more is refused with reason `capacity`, never queued.
    pub const fn max_concurrent(mut self, runs: u32) -> Self {
        self.max_concurrent = runs;
        self
    }

    /// At most as many runs at once as fit into this many MiB together.
    pub const fn total_memory_mb(mut self, total_mb: u32) -> Self {
        self.total_memory_mb = Some(total_mb);
        self
    }

    /// Maps the engine and proves it: a run prints 42, the memory cap holds, an endless loop is interrupted.
    ///
    /// # Errors
    /// A setting the engine cannot work with, bounds that fit no run, or a failed proof.
    pub async fn build(self) -> Result<Sandbox, BuildError> {
        let capacity = self.capacity();
        capacity.check()?;
        let mut choice = Choice::named("wasm")?;
        choice.resources.memory_mb = self.memory_mb.unwrap_or(0);
        let provider = choice.build(capacity.slots().unwrap_or(self.max_concurrent), &Environment::default())?;
        Sandbox::with_provider(provider).await?.with_capacity(capacity)
    }

    fn capacity(&self) -> Capacity {
        let capacity = Capacity::new().max_concurrent(self.max_concurrent);
        match self.total_memory_mb {
            Some(total_mb) => capacity.memory_mb(
                total_mb,
                self.memory_mb.filter(|mb| *mb > 0).unwrap_or(PER_RUN_DEFAULT_MB),
            ),
            None => capacity,
        }
    }
}
