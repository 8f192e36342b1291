//! Hundreds of sockets leave nothing behind. Alone in its process, because it counts the process's file descriptors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain_upstream;

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_broker::{Broker, BrokerOptions, BrokerSocket};
use plimsoll_grants::grant::GrantSpec;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle};

const SOCKETS: usize = 400;

/// The promise for a socket that is made and removed: a pool holds one for each waiting container. Measured on a busy
/// machine: 0.1 ms each; the rest is for busier ones.
const BAR: Duration = Duration::from_millis(5);

fn open_files() -> usize {
    fs_err::read_dir("/proc/self/fd").unwrap().count()
}

async fn one_container(temp: &Path, origin: &str, turn: usize) {
    let socket = BrokerSocket::open(temp, "plimsoll-run-").await.unwrap();
    let mut spec = GrantSpec::new(origin);
    spec.allow = vec![("GET".to_owned(), "/items/*".to_owned())];
    let broker = Broker::open(spec.validate().unwrap(), None, BrokerOptions::default()).unwrap();
    socket.lend(broker.clone());
    let mut guests = Vec::new();
    for nth in 0..4 {
        let mut guest = UnixStream::connect(socket.path()).await.unwrap();
        guest.write_all(b"GET /items/a HTTP/1.1\r\n\r\n").await.unwrap();
        // Some are answered, some are not waited for.
        if nth % 2 == 0 {
            assert!(guest.read(&mut [0; 1024]).await.unwrap() > 0);
        }
        guests.push(guest);
    }
    // Some end before their socket, some after it.
    guests.truncate(turn % 5);
    match turn % 3 {
        0 => socket.close().await,
        1 => drop(socket),
        _ => {
            drop(broker.end().await);
            socket.close().await;
        }
    }
}

#[test]
fn four_hundred_sockets_leave_no_connection_file_folder_or_task() {
    let temp = tempfile::tempdir().unwrap();
    let origin = format!("http://{}", plain_upstream::start());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for turn in 0..3 {
            one_container(temp.path(), &origin, turn).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = || (open_files(), Handle::current().metrics().num_alive_tasks());
        let (files, tasks) = now();
        for turn in 0..SOCKETS {
            one_container(temp.path(), &origin, turn).await;
        }
        assert_eq!(fs_err::read_dir(temp.path()).unwrap().count(), 0);
        for _ in 0..500 {
            let (open, alive) = now();
            if open <= files && alive <= tasks {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("files and tasks before: {:?}, now: {:?}", (files, tasks), now());
    });
    runtime.block_on(async {
        let (mut opens, mut closes) = (Vec::new(), Vec::new());
        for _ in 0..SOCKETS {
            let started = Instant::now();
            let socket = BrokerSocket::open(temp.path(), "plimsoll-run-").await.unwrap();
            opens.push(started.elapsed());
            let started = Instant::now();
            socket.close().await;
            closes.push(started.elapsed());
        }
        opens.sort_unstable();
        closes.sort_unstable();
        let (open, close) = (opens[SOCKETS / 2], closes[SOCKETS / 2]);
        assert!(open + close <= BAR, "opened in {open:?}, closed in {close:?}");
        tell(open, close);
    });
}

#[expect(clippy::print_stderr, reason = "shown with --nocapture")]
fn tell(open: Duration, close: Duration) {
    eprintln!("a socket opens in {open:?} and closes in {close:?}");
}
