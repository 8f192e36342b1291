//! Placement under faults, in a network that exists in memory only.
//!
//! ```text
//!  caller hosts                        nodes
//!  ┌──────────────────────┐            ┌──────────────────────────────────────────────┐
//!  │ worker ─ Pool ─ Client ═ turmoil ═ hyper ─ Corridor ─ Limiter ─ scripted provider ─► Ledger
//!  └──────────────────────┘  crashes,  └──────────────────────────────────────────────┘
//!                            partitions, held packets, slow nodes, fallen tiers
//! ```
//!
//! Everything that decides about a mark is the real thing: the client and its pool on one side, the service's corridor,
//! limiter and dispatch on the other, and the wire's encoding between them. Two parts are not. The provider is scripted: it
//! notes in the `Ledger` that a run has begun, and sleeps. And HTTP is spoken by hyper instead of our edge,
//! whose listener is a socket of the system and whose clocks are the system's; what the edge itself refuses is proven on raw
//! sockets elsewhere.
//!
//! One seed decides everything: who is placed where, how long each run takes, and every fault. The same seed gives the same
//! history, which [`Report::fingerprint`] stands for.

mod caller;
mod chance;
mod daemon;
mod faults;
mod ledger;
mod plan;
mod report;

pub use faults::Counts;
pub use plan::{CallerRule, DaemonRule, Plan};
pub use report::{Report, Tally};

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;

use crate::caller::Worker;
use crate::chance::Chance;
use crate::daemon::Node;
use crate::faults::Faults;
use crate::ledger::Ledger;

/// Simulated time of one step: the finest at which anything happens.
const TICK: Duration = Duration::from_millis(1);

/// Longest history, in simulated time. The daemons' own bound on a run (5 minutes) is read from the system's clock, so it
/// must stay out of reach.
const LONGEST: Duration = Duration::from_secs(240);

/// Simulated time after the last answer and the last fault, in which everything that is still under way ends: held packets
/// arrive and the slowest run is over.
const SETTLING: Duration = Duration::from_secs(8);

/// Connections a host may be asked for in one tick.
const BACKLOG: usize = 4096;

/// Runs a whole history and says what came of it.
///
/// # Errors
/// The simulation itself came to no end. What was wrong with a history is in its [`Report`].
pub fn simulate(plan: &Plan) -> anyhow::Result<Report> {
    let began = Instant::now();
    let ledger = Arc::new(Mutex::new(Ledger::new(plan.runs)));
    let mut chance = Chance::new(plan.seed);
    let mut sim = turmoil::Builder::new()
        .rng_seed(chance.next())
        .tick_duration(TICK)
        .simulation_duration(LONGEST)
        .min_message_latency(Duration::ZERO)
        .max_message_latency(Duration::from_millis(20))
        .tcp_capacity(BACKLOG)
        .ephemeral_ports(1024..=65535)
        .build();

    let nodes: Vec<Arc<Node>> = (0..plan.nodes)
        .map(|index| Node::new(plan, index, &ledger).map(Arc::new))
        .collect::<std::io::Result<_>>()
        .context("a log's thread")?;
    for node in &nodes {
        let software = Arc::clone(node);
        sim.host(node.name(), move || Arc::clone(&software).serve());
    }
    let hosts: Vec<String> = (0..plan.caller_hosts).map(|host| format!("callers-{host}")).collect();
    for (host, name) in hosts.iter().enumerate() {
        let mut workers = Vec::new();
        for worker in 0..plan.workers_per_host {
            workers.push(Worker::new(
                plan,
                host * plan.workers_per_host + worker,
                &mut chance,
                &ledger,
            )?);
        }
        sim.client(name.as_str(), caller::work(workers));
    }

    let mut faults = Faults::new(plan, nodes, hosts, chance);
    let stepped = |error: Box<dyn std::error::Error>| anyhow::anyhow!("seed {}: {error}", plan.seed);
    loop {
        faults.step(&mut sim);
        if sim.step().map_err(stepped)? {
            break;
        }
    }
    let answered_after = sim.elapsed();
    faults.heal(&mut sim);
    while sim.elapsed() < answered_after + SETTLING {
        sim.step().map_err(stepped)?;
    }
    drop(sim);
    let ledger = ledger.lock();
    Ok(Report::new(
        plan,
        &ledger,
        faults.counts(),
        answered_after,
        began.elapsed(),
    ))
}
