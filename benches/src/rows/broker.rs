//! What the broker adds to a call of an API, against the same call made by hand on one kept connection of the same HTTP
//! stack in the same process.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use plimsoll::grants::{Credential, GrantSpec};
use plimsoll_broker::{Broker, BrokerOptions};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use crate::Row;
use crate::stats::{Round, micros, middle, ratio};

const ROUNDS: usize = 5;
const RUNS: usize = 100;
/// The first call of a run dials; the figure is about those after it.
const CALLS: usize = 21;
const BAR: Duration = Duration::from_micros(120);
const PATH: &str = "/berths/7";
const BODY: &[u8] = b"{\"berth\":7}";

pub(super) async fn measure() -> anyhow::Result<Row> {
    let upstream = upstream()?;
    // A runtime like the daemon's, on threads of its own.
    let measured = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async move { tokio::spawn(rounds(upstream)).await? })
    });
    let [direct, brokered, firsts] = measured.await??;
    let (by_hand, through) = (middle(&direct, Round::p50), middle(&brokered, Round::p50));
    let added = through.saturating_sub(by_hand);
    let times = ratio(through, by_hand);
    Ok(Row {
        name: "broker",
        what: "a call through the broker, from the second of a run on, against the same request by hand, alternating",
        figure: format!(
            "adds {} us at p50: {} us by hand, {} us through the broker, {times} times",
            micros(added),
            micros(by_hand),
            micros(through)
        ),
        bar: "adds at most 120 us at p50",
        holds: added <= BAR,
        numbers: json!({ "added_us": micros(added), "direct_p50_us": micros(by_hand), "broker_p50_us": micros(through),
            "ratio": times, "direct_p99_us": micros(middle(&direct, |round| round.percentile(99))),
            "broker_p99_us": micros(middle(&brokered, |round| round.percentile(99))),
            "first_call_p50_us": micros(middle(&firsts, Round::p50)), "rounds": ROUNDS, "runs": RUNS,
            "calls_a_run": CALLS - 1 }),
    })
}

/// Calls by hand, calls through the broker, and the first calls of the broker's runs.
async fn rounds(upstream: SocketAddr) -> anyhow::Result<[Vec<Round>; 3]> {
    let mut spec = GrantSpec::new(format!("http://{upstream}"));
    spec.allow = vec![("GET".to_owned(), "/berths/*".to_owned())];
    let grant = spec.validate()?;
    let mut by_hand = connect(upstream).await?;
    request(&mut by_hand, upstream).await?;
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let mut taken = [const { Vec::new() }; 3];
        for _ in 0..RUNS {
            let credential = Credential::new("benchmark-credential-0123456789");
            let broker = Broker::open(grant.clone(), Some(credential), BrokerOptions::default())?;
            for nth in 0..CALLS {
                // Turn by turn, so that a busy moment of the machine hits both.
                let direct = request(&mut by_hand, upstream).await?;
                let start = Instant::now();
                let answer = broker.call(b"GET", PATH.as_bytes(), Empty::new()).await;
                let brokered = start.elapsed();
                anyhow::ensure!((answer.status, &*answer.body) == (200, BODY), "{answer:?}");
                if nth == 0 {
                    taken[2].push(brokered);
                } else {
                    taken[0].push(direct);
                    taken[1].push(brokered);
                }
            }
            let trace = broker.end().await.context("calls leave a trace")?;
            anyhow::ensure!(trace.rows.len() == CALLS, "{} rows", trace.rows.len());
        }
        for (all, taken) in all.iter_mut().zip(taken) {
            all.push(Round::new(taken));
        }
    }
    Ok(all)
}

async fn connect(upstream: SocketAddr) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn request(sender: &mut SendRequest<Empty<Bytes>>, upstream: SocketAddr) -> anyhow::Result<Duration> {
    let start = Instant::now();
    sender.ready().await?;
    let request = Request::get(PATH)
        .header("host", upstream.to_string())
        .body(Empty::new())?;
    let answer = sender.send_request(request).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let taken = start.elapsed();
    anyhow::ensure!(&*body == BODY, "{body:?}");
    Ok(taken)
}

/// An API on a thread of its own, for as long as the process lives.
fn upstream() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || runtime.block_on(serve(listener)));
    Ok(address)
}

async fn serve(listener: std::net::TcpListener) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = service_fn(|_: Request<Incoming>| async {
            let mut answer = Response::new(Full::new(Bytes::from_static(BODY)));
            answer.headers_mut().insert(
                hyper::header::CONTENT_TYPE,
                hyper::header::HeaderValue::from_static("application/json"),
            );
            Ok::<_, Infallible>(answer)
        });
        let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(served);
    }
}
