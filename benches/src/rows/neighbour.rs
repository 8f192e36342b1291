//! A neighbour beside a guest that does nothing but make refused host calls, against one beside a guest that only spins;
//! and the same with a guest on every processor.

use std::num::NonZero;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{Daemon, Program, TOKEN};
use crate::http::{Connection, run_body};
use crate::stats::{Round, micros, middle};
use crate::{CODE, Row};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(500);
/// The guests outlast the round; they are waited for before the next.
const GUEST_MS: u32 = 900;
const WARM_UP: usize = 200;
/// The neighbour may take this much more time, in percent.
const BAR: f64 = 10.0;

/// Past the injected client, which would refuse without a call.
const CALLS: &str = r#"const call = '{"method":"GET","path":"/forbidden"}';
for (;;) { try { __plimsoll_host_call(call) } catch {} }"#;
const SPINS: &str = "for (;;);";

pub(super) async fn measure(program: &Program) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir()?;
    let grants = folder.path().join("grants.json");
    let profile = json!({ "base_url": "http://127.0.0.1:9", "allow": ["GET /berths/*"], "allowed_callers": ["bench"],
        "max_calls": 100_000 });
    fs_err::write(&grants, json!({ "profiles": { "berths": profile } }).to_string())?;
    let grants = grants.to_string_lossy();
    let daemon = Daemon::start(
        program,
        &[
            ("SANDBOX_MAX_CONCURRENT", "32"),
            ("SANDBOX_PER_KEY_CONCURRENT", "0"),
            ("PLIMSOLL_GRANTS_FILE", &grants),
        ],
    )?;
    let mut neighbour = Connection::open(daemon.address(), TOKEN).await?;
    for _ in 0..WARM_UP {
        neighbour.run(run_body(CODE, 0)).await?.printed_42()?;
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let alone = compare(&daemon, &mut neighbour, 1).await?;
    let crowded = compare(&daemon, &mut neighbour, processors).await?;
    let refused = refused(&daemon).await?;
    daemon.stop()?;
    anyhow::ensure!(refused > 0, "no call was refused");
    let slower = alone.slower_percent();
    Ok(Row {
        name: "neighbour",
        what: "a neighbour's runs through plimsolld beside a guest in a loop of refused host calls, against one that spins",
        figure: format!(
            "p50 {} us beside refused calls, {} us beside spinning: {slower:+.1} % (a guest on every processor: {:+.1} %)",
            micros(alone.calling()),
            micros(alone.spinning()),
            crowded.slower_percent()
        ),
        bar: "at most 10 % slower beside one such guest",
        holds: slower <= BAR,
        numbers: json!({ "one_guest": alone.numbers(), "a_guest_a_processor": crowded.numbers(), "processors": processors,
            "refused_calls": refused, "rounds": ROUNDS }),
    })
}

/// Rounds beside guests that call, and beside guests that spin.
struct Comparison {
    calling: Vec<Round>,
    spinning: Vec<Round>,
}

impl Comparison {
    fn calling(&self) -> Duration {
        middle(&self.calling, Round::p50)
    }

    fn spinning(&self) -> Duration {
        middle(&self.spinning, Round::p50)
    }

    /// By how much the neighbour's runs take longer beside guests that call: the middle of the pairs of rounds, because
    /// only rounds next to each other saw the same machine. One decimal.
    fn slower_percent(&self) -> f64 {
        let pairs = self.calling.iter().zip(&self.spinning);
        let mut slower: Vec<f64> = pairs
            .map(|(calling, spinning)| calling.p50().as_secs_f64() / spinning.p50().as_secs_f64() - 1.0)
            .collect();
        slower.sort_unstable_by(f64::total_cmp);
        let middle = slower.get(slower.len() / 2).copied().unwrap_or_default();
        (middle * 1000.0).round() / 10.0
    }

    fn numbers(&self) -> Value {
        let of = |figure: &dyn Fn(&Round) -> Duration| {
            [&self.calling, &self.spinning].map(|rounds| micros(middle(rounds, figure)))
        };
        let [calling_p50, spinning_p50] = of(&Round::p50);
        let [calling_p99, spinning_p99] = of(&|round| round.percentile(99));
        let [calling_mean, spinning_mean] = of(&Round::mean);
        json!({ "slower_percent": self.slower_percent(), "calling_p50_us": calling_p50, "spinning_p50_us": spinning_p50,
            "calling_mean_us": calling_mean, "spinning_mean_us": spinning_mean, "calling_p99_us": calling_p99,
            "spinning_p99_us": spinning_p99 })
    }
}

async fn compare(daemon: &Daemon, neighbour: &mut Connection, guests: usize) -> anyhow::Result<Comparison> {
    let (mut calling, mut spinning) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Alternating, so that whatever else the machine does slows both.
        spinning.push(beside(daemon, neighbour, guests, SPINS).await?);
        calling.push(beside(daemon, neighbour, guests, CALLS).await?);
    }
    Ok(Comparison { calling, spinning })
}

/// The times of a neighbour's runs during one round.
async fn beside(daemon: &Daemon, neighbour: &mut Connection, guests: usize, code: &str) -> anyhow::Result<Round> {
    let mut running = Vec::with_capacity(guests);
    for _ in 0..guests {
        let mut connection = Connection::open(daemon.address(), TOKEN).await?;
        let body = granted_body(code);
        running.push(tokio::spawn(async move { connection.run(body).await }));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (body, start, mut taken) = (run_body(CODE, 0), Instant::now(), Vec::new());
    while start.elapsed() < ROUND {
        let begin = Instant::now();
        neighbour.run(body.clone()).await?.printed_42()?;
        taken.push(begin.elapsed());
    }
    for guest in running {
        let answer: Value = guest.await??.json()?;
        anyhow::ensure!(
            answer["javascript"]["timedOut"] == true,
            "a guest ended by itself: {answer}"
        );
    }
    Ok(Round::new(taken))
}

fn granted_body(code: &str) -> bytes::Bytes {
    let request =
        json!({ "protocol": 4, "timeoutMs": GUEST_MS, "javascript": { "code": code, "grantProfile": "berths" } });
    request.to_string().into()
}

/// Calls the broker refused in all, by the daemon's own count.
async fn refused(daemon: &Daemon) -> anyhow::Result<u64> {
    const SERIES: &str = "plimsoll_host_calls_refused_total{profile=\"berths\",kind=\"denied\"} ";
    let mut metrics = Connection::open(daemon.metrics_address(), "").await?;
    let page = metrics.get("/metrics").await?.body;
    let page = std::str::from_utf8(&page)?;
    let value = page.lines().find_map(|line| line.strip_prefix(SERIES));
    Ok(value.map_or(Ok(0), str::parse)?)
}
