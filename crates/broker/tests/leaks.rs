//! A thousand runs leave nothing behind. Alone in its process, because it counts the process's file descriptors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain_upstream;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use plimsoll_broker::{Broker, BrokerOptions};
use plimsoll_grants::grant::GrantSpec;
use plimsoll_grants::mint::Credential;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

const RUNS: usize = 1_000;
const CALLS: usize = 20;

fn open_files() -> usize {
    fs_err::read_dir("/proc/self/fd").unwrap().count()
}

async fn one_run(origin: String, turn: usize) {
    let mut spec = GrantSpec::new(origin);
    spec.allow = vec![("GET".to_owned(), "/items/*".to_owned())];
    let credential = Credential::new("tok-0123456789abcdef");
    let broker = Broker::open(spec.validate().unwrap(), Some(credential), BrokerOptions::default()).unwrap();
    let call = |broker: Arc<Broker>| async move { broker.call(b"GET", b"/items/a", Empty::new()).await.status };
    // In turn, four at once, and some that nobody waits for.
    match turn % 3 {
        0 => {
            for _ in 0..CALLS {
                assert_eq!(call(broker.clone()).await, 200);
            }
        }
        1 => {
            for _ in 0..CALLS / 4 {
                let four: JoinSet<_> = (0..4).map(|_| call(broker.clone())).collect();
                assert_eq!(four.join_all().await, [200; 4]);
            }
        }
        _ => {
            for nth in 0..CALLS {
                let limit = Duration::from_micros(if nth.is_multiple_of(2) { 1 } else { 60_000_000 });
                let _ = tokio::time::timeout(limit, call(broker.clone())).await;
            }
        }
    }
    if turn.is_multiple_of(2) {
        let trace = broker.end().await.unwrap();
        assert_eq!(trace.rows.len() + usize::try_from(trace.denied).unwrap(), CALLS);
    }
}

#[test]
fn a_thousand_runs_of_twenty_calls_leave_no_connection_file_or_task() {
    let origin = format!("http://{}", plain_upstream::start());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (files, tasks) = runtime.block_on(async {
        one_run(origin.clone(), 0).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        (open_files(), Handle::current().metrics().num_alive_tasks())
    });
    runtime.block_on(async {
        for batch in 0..RUNS / 10 {
            let runs: JoinSet<_> = (0..10).map(|nth| one_run(origin.clone(), batch * 10 + nth)).collect();
            runs.join_all().await;
        }
        // The runtime lets go of a finished task, and the upstream of a closed connection, a moment later.
        let left = || (open_files(), Handle::current().metrics().num_alive_tasks());
        for _ in 0..500 {
            let (open, alive) = left();
            if open <= files && alive <= tasks {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("files and tasks before: {:?}, now: {:?}", (files, tasks), left());
    });
}
