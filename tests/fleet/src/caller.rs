//! Callers: each with a pool of its own over the simulated network, one call after the other.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_client::placement::{Placed, Pool};
use plimsoll_client::{Client, Connect, Connecting, Error, JavaScriptResult, Stream, Tier};
use tokio::task::JoinSet;

use crate::chance::Chance;
use crate::daemon::{node_name, port, program};
use crate::ledger::{Answer, Ledger};
use crate::plan::{CallerRule, Plan};

/// How long a caller waits for one exchange: far above an honest run, far below what a slow node takes.
const PATIENCE: Duration = Duration::from_millis(600);

/// How long a description is used, so that some are wrong when they are.
const DESCRIBED_FOR: Duration = Duration::from_secs(2);

/// Connections in the simulated network.
struct Simulated;

impl Connect for Simulated {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let stream = turmoil::net::TcpStream::connect((host, port)).await?;
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(stream)
        })
    }
}

/// One caller.
pub(crate) struct Worker {
    pool: Pool,
    /// Its calls: every so many-th, from this one on.
    first: usize,
    every: usize,
    runs: usize,
    rule: CallerRule,
    chance: Chance,
    ledger: Arc<Mutex<Ledger>>,
}

impl Worker {
    pub(crate) fn new(
        plan: &Plan,
        index: usize,
        chance: &mut Chance,
        ledger: &Arc<Mutex<Ledger>>,
    ) -> anyhow::Result<Self> {
        let mut daemons: Vec<usize> = (0..plan.daemons()).collect();
        let mut backends = Vec::new();
        for _ in 0..plan.pool.min(plan.daemons()) {
            let daemon = daemons.swap_remove(chance.below(daemons.len()));
            let (node, on_node) = (daemon / plan.daemons_per_node, daemon % plan.daemons_per_node);
            let client = Client::builder(format!("http://{}:{}", node_name(node), port(on_node)))
                .insecure_http(true)
                .request_timeout(PATIENCE)
                .connector(Simulated)
                .build()?;
            backends.push((daemon.to_string(), client));
        }
        Ok(Self {
            pool: Pool::new(backends, DESCRIBED_FOR)?,
            first: index,
            every: plan.workers(),
            runs: plan.runs,
            rule: plan.callers,
            chance: Chance::new(chance.next()),
            ledger: Arc::clone(ledger),
        })
    }

    async fn work(mut self) {
        for run in (self.first..self.runs).step_by(self.every) {
            tokio::time::sleep(self.chance.millis(0, 10)).await;
            let floor = self.floor();
            let mut outcome = self.call(run, floor).await;
            if self.rule == CallerRule::RetriesUnmarked
                && outcome.as_ref().is_err_and(|error| error.not_dispatched().is_none())
            {
                outcome = self.call(run, floor).await;
            }
            let answer = told(outcome);
            self.ledger.lock().answered(run, answer);
        }
    }

    async fn call(&self, run: usize, floor: Option<Tier>) -> Result<Placed<JavaScriptResult>, Error> {
        let call = self.pool.run_javascript(program(run));
        match floor {
            Some(floor) => call.floor(floor).send().await,
            None => call.any_tier().send().await,
        }
    }

    fn floor(&mut self) -> Option<Tier> {
        match self.chance.below(200) {
            // No daemon of the fleet has such a wall.
            0 => Some(Tier::Vm),
            1..80 => Some(Tier::Kernel),
            80..140 => Some(Tier::Container),
            _ => None,
        }
    }
}

/// What a caller takes an outcome for.
fn told(outcome: Result<Placed<JavaScriptResult>, Error>) -> Answer {
    match outcome {
        Ok(placed) => Answer::Result {
            daemon: placed.choice.backend.parse().unwrap_or(usize::MAX),
            refusals: placed.choice.retried.len(),
        },
        Err(error) => match error.not_dispatched() {
            Some(reason) => Answer::Refused {
                reason,
                // The last one refused it too.
                refusals: error.choice().map_or(0, |choice| choice.retried.len() + 1),
            },
            None => Answer::MayHaveRun { kind: error.kind() },
        },
    }
}

/// The software of a host of callers: ends when each has all its answers.
pub(crate) async fn work(workers: Vec<Worker>) -> turmoil::Result {
    let mut working: JoinSet<()> = workers.into_iter().map(Worker::work).collect();
    while let Some(done) = working.join_next().await {
        done?;
    }
    Ok(())
}
