//! What the broker adds to a call, against the same call made by hand on one kept connection of the same HTTP stack.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain_upstream;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use plimsoll_broker::{Broker, BrokerOptions};
use plimsoll_grants::grant::GrantSpec;
use plimsoll_grants::mint::Credential;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

const CALLS: usize = 2_000;

/// The promise.
const BAR: Duration = Duration::from_micros(120);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn the_broker_adds_at_most_120_microseconds_to_a_call_from_the_second_on() {
    let address = plain_upstream::start();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (direct, brokered) = runtime.block_on(async move {
        let work = tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .unwrap();
            let driver = tokio::spawn(connection);
            let mut spec = GrantSpec::new(format!("http://{address}"));
            spec.allow = vec![("GET".to_owned(), "/berths/*".to_owned())];
            spec.max_calls = 100_000;
            let credential = Credential::new("tok-0123456789abcdef");
            let broker = Broker::open(spec.validate().unwrap(), Some(credential), BrokerOptions::default()).unwrap();
            let (mut direct, mut brokered) = (Vec::new(), Vec::new());
            // Turn by turn, so that a busy moment of the machine hits both.
            for _ in 0..CALLS {
                let started = Instant::now();
                sender.ready().await.unwrap();
                let request = Request::get("/berths/7")
                    .header("host", address.to_string())
                    .body(Empty::<Bytes>::new())
                    .unwrap();
                let answer = sender.send_request(request).await.unwrap();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                direct.push(started.elapsed());

                let started = Instant::now();
                let answer = broker.call(b"GET", b"/berths/7", Empty::new()).await;
                brokered.push(started.elapsed());
                assert_eq!((answer.status, answer.body), (200, body));
            }
            driver.abort();
            (median(direct.split_off(1)), median(brokered.split_off(1)))
        });
        work.await.unwrap()
    });
    assert!(
        brokered <= direct + BAR,
        "direct {direct:?}, through the broker {brokered:?}"
    );
}
