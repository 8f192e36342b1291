//! The smoke test a daemon makes before it serves.

use std::time::Duration;

use crate::engine::{Engine, RunSpec};
use crate::guest::{IMPORTS, MODULE};

/// The promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmokeFailure {
    /// A plain run did not print 42.
    #[error("a run that prints 42 answered otherwise: {0}")]
    Print(String),
    /// Memory grew past the limit.
    #[error("memory could grow past its limit: {0}")]
    Memory(String),
    /// An endless loop was not ended by its deadline.
    #[error("an endless loop was not interrupted: {0}")]
    Deadline(String),
    /// The image imports something else than our functions.
    #[error("the engine image imports {0:?}")]
    Imports(Vec<String>),
}

/// Long enough for any of the probes on a loaded machine; they take milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints, so that the host sees it run, and then only an interruption ends it.
const LOOP: &str = "console.log(1); while (true) {}";

/// Time the loop is left to spin.
const LOOP_TIME: Duration = Duration::from_micros(50);

/// Pages the memory probe may use: little above the engine itself, so that proving the limit touches next to nothing however
/// large the operator's own limit is. The same limiter enforces both.
const PROBE_PAGES: u32 = 1024;

/// Prints, and then asks for more than that in one piece. One run for both, because a whole `plimsoll run` waits for them.
const PRINT_AND_GROW: &str =
    "console.log(6*7); try { new ArrayBuffer(1 << 27) } catch (error) { console.log(error.name) }";

impl Engine {
    /// Proves on this host what the tier claims: a run answers, memory is bounded, a loop is interrupted, and the image can
    /// ask for nothing but our own functions.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub async fn smoke_test(&self) -> Result<(), SmokeFailure> {
        let mut imports = self.imports();
        imports.sort();
        if imports != IMPORTS.map(|name| format!("{MODULE}.{name}")) {
            return Err(SmokeFailure::Imports(imports));
        }
        let mut probe = RunSpec::new(PRINT_AND_GROW, PATIENCE);
        probe.memory_pages = Some(PROBE_PAGES);
        let probed = self.run(probe).await;
        let printed = probed
            .as_ref()
            .is_ok_and(|report| report.stdout.bytes.starts_with(b"42\n"));
        match probed {
            Ok(report)
                if report.exit_code == 0
                    && report.memory_refused
                    && report.stdout.bytes == b"42\nRangeError\n"
                    && report.peak_memory <= u64::from(PROBE_PAGES) * 65_536 => {}
            other if printed => return Err(SmokeFailure::Memory(format!("{other:?}"))),
            other => return Err(SmokeFailure::Print(format!("{other:?}"))),
        }
        // The interruption is proven in two halves, so that neither waits for the kernel to take the processor from a spinning
        // guest: the clock of the deadlines moves, and a guest whose time is up is stopped inside its loop.
        if !self.ticker.has_ticked(PATIENCE) {
            return Err(SmokeFailure::Deadline(
                "the thread behind the deadlines does not run".into(),
            ));
        }
        let mut spin = RunSpec::new(LOOP, PATIENCE);
        spin.after_output = Some(LOOP_TIME);
        match self.run(spin).await {
            Ok(report) if report.timed_out && report.stdout.bytes == b"1\n" => Ok(()),
            other => Err(SmokeFailure::Deadline(format!("{other:?}"))),
        }
    }
}
