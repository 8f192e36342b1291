//! A well-behaved caller's runs beside ten thousand connections that mean no good, which another process makes.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use serde_json::json;

use crate::daemon::{Daemon, OTHER_TOKEN, Program, TOKEN, eventually};
use crate::hostile::{Attack, allow_descriptors};
use crate::http::{Connection, run_body};
use crate::stats::{Round, micros, middle, ratio};
use crate::{CODE, Row};

/// Connections that stand at once, where the daemon may have as many.
const STANDING: usize = 10_000;

/// Connections that are kept going for that: some are refused, and made anew later.
const CONNECTIONS: usize = 16_000;

/// Descriptors the daemon should have; it takes half as many connections.
const DESCRIPTORS: u64 = 32_768;

/// Places among the daemon's connections that are left to those that mean well.
const LEFT_FREE: u64 = 100;

const ROUNDS: usize = 5;
const RUNS: usize = 1_000;
const WARM_UP: usize = 300;
const AT_MOST: f64 = 5.0;

const SETTLED: Duration = Duration::from_secs(10);

/// How long the attack may take to stand, and its connections to be gone afterwards.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn measure(program: &Program) -> anyhow::Result<Row> {
    let standing = allowed()?;
    let daemon = Daemon::start(program, &[])?;
    let mut connection = Connection::open(daemon.address(), TOKEN).await?;
    for _ in 0..WARM_UP {
        connection.run(run_body(CODE, 0)).await?.printed_42()?;
    }
    let (descriptors, memory) = (daemon.descriptors()?, daemon.resident_kib()?);
    let idle = rounds(&mut connection).await?;

    let mut attackers = Attackers::start(&daemon)?;
    let stands = eventually(PATIENCE, async || held(&daemon, descriptors) >= standing).await;
    anyhow::ensure!(
        stands,
        "the attack never stood: {} connections",
        held(&daemon, descriptors)
    );
    // Until those that came together are no longer all new.
    tokio::time::sleep(SETTLED).await;
    let attacked = rounds(&mut connection).await?;
    let (most, memory_then) = (held(&daemon, descriptors), daemon.resident_kib()?);
    attackers.stop()?;

    let gone = eventually(PATIENCE, async || held(&daemon, descriptors) == 0).await;
    connection.run(run_body(CODE, 0)).await?.printed_42()?;
    let left = held(&daemon, descriptors);
    drop(connection);
    daemon.stop()?;
    let [idle, attacked] = [idle, attacked].map(|rounds| middle(&rounds, |round| round.percentile(99)));
    let slower = ratio(attacked, idle);
    Ok(Row {
        name: "hostile",
        what: "p99 of a well-behaved caller's runs beside 10,000 slow, silent, half-sent, unread and flooding connections of another process",
        figure: format!(
            "p99 {} us idle, {} us beside {most} connections: {slower}x; {memory} KiB before, {memory_then} KiB then; {left} connections left",
            micros(idle),
            micros(attacked)
        ),
        bar: "every run right, p99 at most 5x idle; every connection given back",
        holds: slower <= AT_MOST && gone && left == 0,
        numbers: json!({ "idle_p99_us": micros(idle), "attacked_p99_us": micros(attacked), "connections": most,
            "left": left, "before_kib": memory, "then_kib": memory_then }),
    })
}

async fn rounds(connection: &mut Connection) -> anyhow::Result<Vec<Round>> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut taken = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let start = Instant::now();
            let answer = connection.run(run_body(CODE, 0)).await?;
            taken.push(start.elapsed());
            answer.printed_42()?;
        }
        rounds.push(Round::new(taken));
    }
    Ok(rounds)
}

/// How many connections can stand: raising the hard limit takes a capability that not even root has everywhere.
fn allowed() -> anyhow::Result<usize> {
    if allow_descriptors(DESCRIPTORS).is_ok() {
        return Ok(STANDING);
    }
    allow_descriptors(0)?;
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX) / 2;
    let standing = usize::try_from(most.saturating_sub(LEFT_FREE))?.min(STANDING);
    anyhow::ensure!(
        standing >= STANDING / 2,
        "the hard limit of descriptors lets {standing} connections stand, too few to say anything; raise it"
    );
    Ok(standing)
}

/// Connections of others that the daemon holds.
fn held(daemon: &Daemon, before: usize) -> usize {
    daemon.descriptors().map_or(0, |now| now.saturating_sub(before))
}

/// The other process.
struct Attackers(Child);

impl Attackers {
    #[expect(clippy::disallowed_methods, reason = "the attack is a process of its own")]
    fn start(daemon: &Daemon) -> anyhow::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["--attack", &daemon.address().to_string()])
            .stdin(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill.
        let _gone_already = self.stop();
    }
}

/// What the other process does: attacks until it is killed, or until whoever started it is gone.
///
/// # Errors
/// It cannot wait for that.
pub async fn attack(target: std::net::SocketAddr) -> anyhow::Result<()> {
    let attack = Attack::begin(target, CONNECTIONS, OTHER_TOKEN);
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    drop(attack);
    Ok(())
}
