//! How large a fleet is, what it is asked, and which of its rules is broken on purpose.

/// One history's size and seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else.
    pub seed: u64,
    /// Hosts with daemons on them; a crash or a partition hits a whole node.
    pub nodes: usize,
    /// Daemons of each node.
    pub daemons_per_node: usize,
    /// Hosts with callers on them.
    pub caller_hosts: usize,
    /// Callers of each host, each with a pool of its own and one call at a time.
    pub workers_per_host: usize,
    /// Daemons in each pool, drawn from all of them.
    pub pool: usize,
    /// Calls in all.
    pub runs: usize,
    /// What callers do with errors.
    pub callers: CallerRule,
    /// What daemons say of a run that failed.
    pub daemons: DaemonRule,
}

/// What a caller does with an error of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerRule {
    /// Takes it for what it says.
    Honest,
    /// Broken on purpose: sends the call once more although it may have run.
    RetriesUnmarked,
}

/// What a daemon says of a run whose sandbox was lost after it had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonRule {
    /// That it may have run.
    Honest,
    /// Broken on purpose: that nothing ran, for want of capacity.
    MarksLostRuns,
}

impl Plan {
    /// 20 daemons and 10,000 runs: what runs with the tests.
    pub const fn small(seed: u64) -> Self {
        Self {
            seed,
            nodes: 20,
            daemons_per_node: 1,
            caller_hosts: 4,
            workers_per_host: 25,
            pool: 5,
            runs: 10_000,
            callers: CallerRule::Honest,
            daemons: DaemonRule::Honest,
        }
    }

    /// 1,000 daemons on 40 nodes and 1,000,000 runs.
    pub const fn large(seed: u64) -> Self {
        Self {
            seed,
            nodes: 40,
            daemons_per_node: 25,
            caller_hosts: 8,
            workers_per_host: 75,
            pool: 6,
            runs: 1_000_000,
            callers: CallerRule::Honest,
            daemons: DaemonRule::Honest,
        }
    }

    /// Daemons in all.
    pub const fn daemons(&self) -> usize {
        self.nodes * self.daemons_per_node
    }

    /// Callers in all.
    pub const fn workers(&self) -> usize {
        self.caller_hosts * self.workers_per_host
    }
}
