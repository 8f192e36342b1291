//! Prints this host's figures of the engine: load, one run's p50 and p99 (middle of five rounds), runs per second, the
//! lateness of a 50 ms deadline, resident memory before and after.
//! `cargo run --release -q -p plimsoll-wasm --example measure -- [RUNS]`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring tool"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(5);
const CODE: &str = "console.log(6*7)";

fn main() {
    let runs: usize = std::env::args().nth(1).map_or(5_000, |text| text.parse().unwrap());
    let one = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let begin = Instant::now();
    let engine = Arc::new(Engine::new(EngineConfig::default()).unwrap());
    println!("load_us {}", begin.elapsed().as_micros());
    let begin = Instant::now();
    one.block_on(engine.smoke_test()).unwrap();
    println!("smoke_us {}", begin.elapsed().as_micros());

    let before = resident_kib();
    let mut rounds: Vec<(u128, u128)> = (0..5)
        .map(|_| {
            let mut times: Vec<u128> = (0..runs)
                .map(|_| {
                    let begin = Instant::now();
                    let report = one.block_on(engine.run(RunSpec::new(CODE, TIMEOUT))).unwrap();
                    assert_eq!(report.stdout.bytes, b"42\n");
                    begin.elapsed().as_nanos()
                })
                .collect();
            times.sort_unstable();
            (times[runs / 2], times[runs * 99 / 100])
        })
        .collect();
    rounds.sort_unstable();
    println!("p50_us {:.1}", rounds[2].0 as f64 / 1e3);
    rounds.sort_unstable_by_key(|round| round.1);
    println!("p99_us {:.1}", rounds[2].1 as f64 / 1e3);
    println!("rss_kib_before {before} after {}", resident_kib());

    for threads in [1, 2] {
        let many = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_time()
            .build()
            .unwrap();
        let begin = Instant::now();
        many.block_on(async {
            let tasks: Vec<_> = (0..threads * 4)
                .map(|_| {
                    let engine = Arc::clone(&engine);
                    tokio::spawn(async move {
                        for _ in 0..runs / 4 {
                            engine.run(RunSpec::new(CODE, TIMEOUT)).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let per_second = (runs / 4 * 4 * threads) as f64 / begin.elapsed().as_secs_f64();
        println!("runs_per_second_{threads}_threads {per_second:.0}");
    }

    let begin = Instant::now();
    let report = one
        .block_on(engine.run(RunSpec::new("while (true) {}", Duration::from_millis(50))))
        .unwrap();
    assert!(report.timed_out);
    println!("deadline_50_ms_answered_us {}", begin.elapsed().as_micros());
    println!("rss_kib_end {}", resident_kib());
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
