//! A thousand connections that mean no good. `benches/run hostile` makes ten thousand, and compares times.

use std::time::{Duration, Instant};

use plimsoll_benches::CODE;
use plimsoll_benches::daemon::{Daemon, OTHER_TOKEN, Program, TOKEN, eventually};
use plimsoll_benches::hostile::{Attack, allow_descriptors};
use plimsoll_benches::http::{Connection, run_body};

/// Connections that stand at once, and how many are kept going for that: some are refused, and made anew later.
const STANDING: usize = 1_000;
const CONNECTIONS: usize = 1_600;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_thousand_connections_that_mean_no_good_keep_nobody_out_and_leave_nothing() {
    let program = Program {
        path: env!("CARGO_BIN_EXE_daemon-under-test").into(),
        args: Vec::new(),
    };
    allow_descriptors(4 * CONNECTIONS as u64).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let daemon = Daemon::start(&program, &[]).unwrap();
        let mut connection = Connection::open(daemon.address(), TOKEN).await.unwrap();
        let run = async |connection: &mut Connection| {
            let answer = connection.run(run_body(CODE, 0));
            let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
            answer.printed_42().unwrap();
        };
        for _ in 0..50 {
            run(&mut connection).await;
        }
        let before = daemon.descriptors().unwrap();
        let attack = Attack::begin(daemon.address(), CONNECTIONS, OTHER_TOKEN);
        let stands = async || daemon.descriptors().unwrap() >= before + STANDING;
        assert!(
            eventually(PATIENCE, stands).await,
            "{} made, {} stand",
            attack.made(),
            daemon.descriptors().unwrap()
        );
        // Past the time that a header has, so that connections are ended and made anew meanwhile.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(7) {
            run(&mut connection).await;
            // A caller that has no connection yet is served too.
            let mut fresh = Connection::open(daemon.address(), TOKEN).await.unwrap();
            run(&mut fresh).await;
        }
        drop(attack);
        let gone = async || daemon.descriptors().unwrap() <= before;
        assert!(
            eventually(PATIENCE, gone).await,
            "{before} before, {} left",
            daemon.descriptors().unwrap()
        );
        run(&mut connection).await;

        let mut metrics = Connection::open(daemon.metrics_address(), "").await.unwrap();
        let page = metrics.get("/metrics").await.unwrap().body;
        let page = String::from_utf8(page.to_vec()).unwrap();
        for rest in ["\nplimsoll_inflight 0\n", "\nplimsoll_decode_slots_in_use 0\n"] {
            assert!(page.contains(rest), "{page}");
        }
        drop((connection, metrics));
        daemon.stop().unwrap();
    });
}
