//! The bar on start-up, in a test binary of its own so that nothing else of the suite runs beside it.

mod daemon;

use std::time::{Duration, Instant};

use daemon::{Daemon, GOOD_TOKEN, get};

#[test]
fn wasm_is_ready_within_100_ms_of_its_start() {
    // The best of ten: the bound is the daemon's, not that of whatever else the machine does.
    let best = (0..10)
        .map(|_| {
            let began = Instant::now();
            let daemon = Daemon::start(&[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)]);
            assert_eq!(get(daemon.addr, "/readyz").0, 200);
            began.elapsed()
        })
        .min()
        .unwrap();
    assert!(best <= Duration::from_millis(100), "{best:?}");
}
