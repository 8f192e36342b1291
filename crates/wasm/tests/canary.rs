//! No byte of one run is ever visible to another: 100,000 instances through pooled slots, in mixed sizes, after memory
//! growth, after failures of every kind.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

const INSTANCES: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Leaves a mark wherever a program can: globals, prototypes, heap of several sizes, grown memory, output, timers.
fn plant(number: usize) -> String {
    let mark = format!("CANARY-{number}-");
    match number % 8 {
        0 => format!("globalThis.mark = '{mark}'; Object.prototype.mark = '{mark}'; Array.prototype.mark = 1"),
        1 => format!("globalThis.kept = '{mark}'.repeat(1e4); Math.random = () => '{mark}'; console.log = () => {{}}"),
        2 => format!("const b = Buffer.alloc(3 << 20, '{mark}'); globalThis.mark = b"),
        3 => format!("require('util').mark = '{mark}'; process.mark = '{mark}'; throw new Error('{mark}')"),
        4 => format!("globalThis.mark = Array.from({{ length: 2000 }}, (_, i) => '{mark}' + i); process.exit(3)"),
        5 => format!("console.log('{mark}'); console.error('{mark}'); setTimeout(() => {{ globalThis.mark = 1 }}, 10)"),
        6 => format!("(function f(x) {{ globalThis.mark = x; f(x + '{mark}'.slice(0, 1)) }})('{mark}')"),
        _ => "const parts = []; for (let i = 0; i < 40; i++) parts.push(new Uint8Array(1 << 20).fill(i + 65)); \
         globalThis.mark = parts"
            .to_owned(),
    }
}

/// Searches everything a program can reach: names, the clock and the random stream at their start, fresh buffers of many
/// sizes, which must be zero, and unfilled ones, which node leaves as they are and we must not.
const SEARCH: &str = "
  const found = [];
  for (const name of ['mark', 'kept']) if (name in globalThis) found.push(name);
  if (({}).mark !== undefined || [].mark !== undefined || process.mark !== undefined) found.push('prototype');
  if (require('util').mark !== undefined) found.push('module');
  if (typeof Math.random() !== 'number' || Date.now() !== 1640995200000) found.push('state');
  for (const size of [16, 100, 500, 4096, 70000, 1 << 20]) {
    const bytes = Buffer.allocUnsafe(size);
    for (let i = 0; i < size; i += size > 600 ? 509 : 1) if (bytes[i] !== 0) { found.push('memory'); break }
  }
  console.log(found.length ? found.join() : 'clean');
";

#[test]
fn a_hundred_thousand_instances_see_nothing_of_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    // Fewer slots than tasks, so that every slot is used again at once by whoever waits.
    let engine = Arc::new(
        Engine::new(EngineConfig {
            slots: 3,
            ..EngineConfig::default()
        })
        .unwrap(),
    );
    let next = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= INSTANCES {
                            return;
                        }
                        // Heavy plants now and then; a light one or a search otherwise.
                        if number % 50 == 0 {
                            let report = engine.run(RunSpec::new(&plant(number / 50), TIMEOUT)).await.unwrap();
                            assert!(report.trap.is_none() && !report.timed_out, "{report:?}");
                        } else if number % 50 == 1 || number % 10 == 3 {
                            let report = engine.run(RunSpec::new(SEARCH, TIMEOUT)).await.unwrap();
                            assert_eq!(report.stdout.bytes, b"clean\n", "instance {number}: {report:?}");
                            assert!(report.stderr.bytes.is_empty() && report.exit_code == 0);
                        } else {
                            let report = engine
                                .run(RunSpec::new("console.log(typeof mark, Math.random())", TIMEOUT))
                                .await
                                .unwrap();
                            assert!(
                                report.stdout.bytes.starts_with(b"undefined 0."),
                                "instance {number}: {report:?}"
                            );
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(next.load(Ordering::Relaxed) >= INSTANCES);
}
