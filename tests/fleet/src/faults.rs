//! What goes wrong, and when: drawn from the seed, ended after a while.

use std::sync::Arc;
use std::time::Duration;

use turmoil::Sim;

use crate::chance::Chance;
use crate::daemon::Node;
use crate::plan::Plan;

/// What can ail a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Its processes die; everything on it is gone, and starts anew later.
    Crash,
    /// Nothing passes between it and a host of callers. What was under way is lost.
    Partition,
    /// Requests arrive and answers are lost.
    AnswersLost,
    /// Answers would arrive and requests are lost.
    RequestsLost,
    /// Nothing passes for a while, and then all of it does: late, and to callers that have gone.
    Held,
    /// Its runs take far longer than their callers wait.
    Slow,
    /// Its tier is no longer known.
    Fallen,
}

const ALL: [Fault; 7] = [
    Fault::Crash,
    Fault::Partition,
    Fault::AnswersLost,
    Fault::RequestsLost,
    Fault::Held,
    Fault::Slow,
    Fault::Fallen,
];

/// How many of each there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Crashes of whole nodes.
    pub crashes: u64,
    /// Cuts between a node and callers, one way or both.
    pub partitions: u64,
    /// Links whose packets were held and let go.
    pub held: u64,
    /// Nodes that became slow.
    pub slow: u64,
    /// Nodes whose tier fell.
    pub fallen: u64,
}

/// The schedule of one history.
pub(crate) struct Faults {
    nodes: Vec<Arc<Node>>,
    hosts: Vec<String>,
    chance: Chance,
    /// Mean time between two faults.
    every: Duration,
    next: Duration,
    /// At most one a node.
    open: Vec<Option<Open>>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    fault: Fault,
    /// Which hosts of callers it is about, where it is about a link.
    hosts: (usize, usize),
    ends: Duration,
}

impl Faults {
    pub(crate) fn new(plan: &Plan, nodes: Vec<Arc<Node>>, hosts: Vec<String>, chance: Chance) -> Self {
        // About a fifth of the nodes ail at any time: a fault lasts 250 ms in the mean.
        let every = Duration::from_millis(250) * 5 / u32::try_from(plan.nodes).unwrap_or(u32::MAX).max(1);
        Self {
            open: vec![None; nodes.len()],
            nodes,
            hosts,
            chance,
            every,
            next: Duration::ZERO,
            counts: Counts::default(),
        }
    }

    /// Ends what is due to end and begins what is due to begin.
    pub(crate) fn step(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        for node in 0..self.open.len() {
            if let Some(open) = self.open[node]
                && open.ends <= now
            {
                self.end(sim, node, open);
            }
        }
        while self.next <= now {
            self.next += self.every.mul_f64(self.chance.below(2001) as f64 / 1000.0);
            let (node, fault) = (self.chance.below(self.nodes.len()), ALL[self.chance.below(ALL.len())]);
            let lasts = self.chance.millis(20, 480);
            let one = self.chance.below(self.hosts.len());
            let hosts = if self.chance.one_in(2) {
                (one, one + 1)
            } else {
                (0, self.hosts.len())
            };
            if self.open[node].is_none() {
                self.begin(
                    sim,
                    node,
                    Open {
                        fault,
                        hosts,
                        ends: now + lasts,
                    },
                );
            }
        }
    }

    /// Ends everything.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        for node in 0..self.open.len() {
            if let Some(open) = self.open[node] {
                self.end(sim, node, open);
            }
        }
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    fn begin(&mut self, sim: &mut Sim<'_>, node: usize, open: Open) {
        self.open[node] = Some(open);
        let (name, ailing) = (self.nodes[node].name(), &self.nodes[node]);
        let counts = &mut self.counts;
        match open.fault {
            Fault::Crash => {
                sim.crash(name.as_str());
                counts.crashes += 1;
            }
            Fault::Slow => {
                ailing.set_slow(true);
                counts.slow += 1;
            }
            Fault::Fallen => {
                ailing.set_fallen(true);
                counts.fallen += 1;
            }
            Fault::Held => counts.held += 1,
            Fault::Partition | Fault::AnswersLost | Fault::RequestsLost => counts.partitions += 1,
        }
        for host in &self.hosts[open.hosts.0..open.hosts.1] {
            let (node, host) = (name.as_str(), host.as_str());
            match open.fault {
                Fault::Partition => sim.partition(node, host),
                Fault::AnswersLost => sim.partition_oneway(node, host),
                Fault::RequestsLost => sim.partition_oneway(host, node),
                Fault::Held => sim.hold(node, host),
                Fault::Crash | Fault::Slow | Fault::Fallen => {}
            }
        }
    }

    fn end(&mut self, sim: &mut Sim<'_>, node: usize, open: Open) {
        self.open[node] = None;
        let (name, ailing) = (self.nodes[node].name(), &self.nodes[node]);
        match open.fault {
            Fault::Crash => sim.bounce(name.as_str()),
            Fault::Slow => ailing.set_slow(false),
            Fault::Fallen => ailing.set_fallen(false),
            Fault::Partition | Fault::AnswersLost | Fault::RequestsLost | Fault::Held => {}
        }
        for host in &self.hosts[open.hosts.0..open.hosts.1] {
            let (node, host) = (name.as_str(), host.as_str());
            match open.fault {
                Fault::Partition => sim.repair(node, host),
                Fault::AnswersLost => sim.repair_oneway(node, host),
                Fault::RequestsLost => sim.repair_oneway(host, node),
                Fault::Held => sim.release(node, host),
                Fault::Crash | Fault::Slow | Fault::Fallen => {}
            }
        }
    }
}
