//! From starting `plimsolld` to its first `/readyz` 200 on wasm, smoke test included.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::json;

use crate::Row;
use crate::daemon::{Program, start_cold};
use crate::http::until_ready;
use crate::stats::{Round, micros};

const STARTS: usize = 11;
const BAR: Duration = Duration::from_millis(100);

pub(super) async fn measure(program: &Program) -> anyhow::Result<Row> {
    let mut taken = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let port = free_port()?;
        let (daemon, since) = start_cold(program, port)?;
        taken.push(until_ready(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), since).await?);
        drop(daemon);
    }
    let round = Round::new(taken);
    Ok(Row {
        name: "start",
        what: "plimsolld start to first /readyz 200 on wasm, smoke test included",
        figure: format!("p50 {} us", micros(round.p50())),
        bar: "at most 100 ms",
        holds: round.p50() <= BAR,
        numbers: json!({ "p50_us": micros(round.p50()), "slowest_us": micros(round.percentile(100)), "starts": STARTS }),
    })
}

/// A port nobody listens on now; the system does not give it out again at once.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
