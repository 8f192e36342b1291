//! The mixed load test in its short form. `benches/run load` runs it for 60 seconds.

use std::time::Duration;

use plimsoll_benches::daemon::Program;
use plimsoll_benches::load;

#[test]
fn sixty_four_connections_get_exactly_the_answers_of_their_classes() {
    let daemon = Program {
        path: env!("CARGO_BIN_EXE_daemon-under-test").into(),
        args: Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(load::run(&daemon, Duration::from_secs(10))).unwrap();
    assert_eq!(outcome.faults(), Vec::<String>::new(), "{:?}", outcome.sent);
}
