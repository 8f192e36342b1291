//! The limits, and how they are read and clamped to the memory there is.

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};

/// A whole number that is not negative.
const COUNT: Kind = Kind::Int { min: 0, max: i64::MAX };

/// What one run is counted as when `SANDBOX_MEMORY_MB` is unset, in MiB: the default of every local provider.
pub const PER_RUN_DEFAULT_MB: u64 = 256;

const MAX_CONCURRENT: Var = Var::new(
    "SANDBOX_MAX_CONCURRENT",
    Kind::Int { min: 1, max: 1024 },
    "8",
    "Runs in flight at once, of all callers together. A run beyond it is refused, never queued.",
);

const TOTAL_MEMORY_MB: Var = Var::new(
    "SANDBOX_TOTAL_MEMORY_MB",
    COUNT,
    "0",
    "Memory all runs and suspended sessions may hold together, in MiB; 0 sets no budget. The runs in flight are lowered to \
     what fits, each counted as SANDBOX_MEMORY_MB (256 when that is unset). Ignored where runs are not on this host.",
);

const PER_KEY_CONCURRENT: Var = Var::new(
    "SANDBOX_PER_KEY_CONCURRENT",
    COUNT,
    "half of the effective SANDBOX_MAX_CONCURRENT, at least 1",
    "Runs in flight at once of one caller; 0 sets no cap of its own. At most the effective SANDBOX_MAX_CONCURRENT.",
);

const RATE_PER_MIN: Var = Var::new(
    "SANDBOX_RATE_PER_MIN",
    COUNT,
    "30",
    "Runs one caller may start per minute; 0 turns rate limiting off.",
);

const RATE_BURST: Var = Var::new(
    "SANDBOX_RATE_BURST",
    COUNT,
    "0",
    "Runs one caller may start at once after a pause; 0 means as many as SANDBOX_RATE_PER_MIN.",
);

/// The variables read here.
pub const VARS: &[Var] = &[
    MAX_CONCURRENT,
    TOTAL_MEMORY_MB,
    PER_KEY_CONCURRENT,
    RATE_PER_MIN,
    RATE_BURST,
];

/// Limits in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Global slots, 1 to 1,024.
    pub max_concurrent: u32,
    /// Slots per caller; 0 = no cap of its own.
    pub per_key_concurrent: u32,
    /// Tokens per minute; 0 = no rate limit.
    pub rate_per_min: u64,
    /// Bucket capacity; equal to the rate when the operator set none.
    pub rate_burst: u64,
    /// What runs and suspended sessions are counted as; `None` where they use no memory of this host.
    pub memory: Option<Memory>,
}

/// How memory is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What one run is counted as, in bytes.
    pub per_run: u64,
    /// What runs and suspended sessions may hold together, in bytes, less what waits ready; `None` = no budget.
    pub budget: Option<u64>,
}

/// Sandboxes that wait ready, each with the memory of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// For runs, of all kinds together.
    pub runs: u32,
    /// For sessions.
    pub sessions: u32,
}

impl Pools {
    fn all(self) -> u64 {
        u64::from(self.runs) + u64::from(self.sessions)
    }

    /// The variables by which an operator lowers them.
    fn variables(self) -> &'static str {
        match (self.runs, self.sessions) {
            (0, 0) => "",
            (_, 0) => "SANDBOX_READY_POOL or ",
            (0, _) => "SANDBOX_SESSION_POOL or ",
            (_, _) => "SANDBOX_READY_POOL, SANDBOX_SESSION_POOL or ",
        }
    }
}

/// The runs in flight were lowered to fit the memory budget; an operator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamp {
    /// `SANDBOX_TOTAL_MEMORY_MB`.
    pub total_mb: u64,
    /// What one run is counted as.
    pub per_run_mb: u64,
    /// Sandboxes that wait ready, each counted as a run.
    pub pooled: u64,
    /// `SANDBOX_MAX_CONCURRENT` as asked for.
    pub requested: u32,
    /// What fits.
    pub effective: u32,
}

impl Limits {
    /// Reads the limits. `memory_mb` is the per-run memory of the envelope (0 = default); `on_host` says whether runs
    /// use this host's memory.
    ///
    /// # Errors
    /// A value that cannot be read, a budget that fits no run, or a per-caller cap above the effective maximum.
    pub fn read(
        lookup: &dyn Lookup,
        memory_mb: u64,
        on_host: bool,
        pools: Pools,
    ) -> Result<(Self, Option<Clamp>), SettingError> {
        let requested = narrow(&MAX_CONCURRENT, MAX_CONCURRENT.count(lookup)?)?;
        let total_mb = TOTAL_MEMORY_MB.count(lookup)?;
        let per_run_mb = if memory_mb == 0 { PER_RUN_DEFAULT_MB } else { memory_mb };
        let mut max_concurrent = requested;
        let mut clamp = None;
        let mib = |mb: u64| mb.saturating_mul(1 << 20);
        let mut memory = on_host.then_some(Memory {
            per_run: mib(per_run_mb),
            budget: None,
        });
        if let Some(memory) = memory.as_mut().filter(|_| total_mb > 0) {
            let pooled = pools.all();
            let fit = (total_mb / per_run_mb).saturating_sub(pooled);
            if fit == 0 {
                let least = per_run_mb.saturating_mul(pooled.saturating_add(1));
                let beside = match pooled {
                    0 => String::new(),
                    _ => format!(" beside the {pooled} sandboxes that wait ready"),
                };
                let problem = format!("fits no run{beside}: one run is counted as {per_run_mb} MiB");
                let pools = pools.variables();
                let fix =
                    format!("set it to at least {least}, lower {pools}SANDBOX_MEMORY_MB, or unset it (no budget)");
                return Err(TOTAL_MEMORY_MB.unusable(total_mb, problem, fix));
            }
            memory.budget = Some(mib(total_mb.saturating_sub(pooled.saturating_mul(per_run_mb))));
            if fit < u64::from(requested) {
                max_concurrent = narrow(&TOTAL_MEMORY_MB, fit)?;
                clamp = Some(Clamp {
                    total_mb,
                    per_run_mb,
                    pooled,
                    requested,
                    effective: max_concurrent,
                });
            }
        }
        let per_key_concurrent = match PER_KEY_CONCURRENT.int(lookup)? {
            None => (max_concurrent / 2).max(1),
            Some(asked) => u32::try_from(asked)
                .ok()
                .filter(|cap| *cap <= max_concurrent)
                .ok_or_else(|| {
                    let problem = format!("above {max_concurrent}, the runs this daemon does at once");
                    let problem = match clamp {
                        Some(_) => format!("{problem} (SANDBOX_TOTAL_MEMORY_MB fits no more)"),
                        None => problem,
                    };
                    PER_KEY_CONCURRENT.unusable(
                        asked,
                        problem,
                        format!("set it to 0 (no cap) or 1 to {max_concurrent}"),
                    )
                })?,
        };
        let rate_per_min = RATE_PER_MIN.count(lookup)?;
        let rate_burst = match RATE_BURST.count(lookup)? {
            0 => rate_per_min,
            burst => burst,
        };
        Ok((
            Self {
                max_concurrent,
                per_key_concurrent,
                rate_per_min,
                rate_burst,
                memory,
            },
            clamp,
        ))
    }
}

fn narrow(var: &Var, value: u64) -> Result<u32, SettingError> {
    u32::try_from(value).map_err(|_| var.unusable(value, "does not fit 32 bits", "set a smaller number"))
}
