//! A program that uses an API and never holds the key: an allowed route, a refused one, a way around the client that leads
//! nowhere, another grant, and a search for the credential that finds nothing.
//!
//! ```text
//! cargo run --release -p example-grant
//! ```
//!
//! The API is `api.rs`, on a port of this machine. `verify.rs` is what it checks of a token; an API of your own needs the
//! same. The programs that run in the sandbox are in the folder `guest`.

use std::io::{Read as _, Write};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::grants::{CallTrace, GrantSpec, JwtMinter, JwtSettings, Profile};
use plimsoll::{Run, Sandbox, Tier};
use zeroize::Zeroizing;

use crate::api::{AUDIENCE, Api};

mod api;
mod verify;

/// Whom the tokens name: in a daemon, the authenticated caller.
const SUBJECT: &str = "alice";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let secret = new_secret()?;
    let api = Api::start(secret.to_vec()).await?;
    let berths = grant(
        &api,
        &secret,
        "berths",
        &[("GET", "/berths/*"), ("PUT", "/berths/*"), ("GET", "/headers")],
        &["berths:read", "berths:write"],
    )?;
    let crew = grant(&api, &secret, "crew", &[("GET", "/crew")], &["crew:read"])?;
    let sandbox = Sandbox::wasm().build().await?;

    let mut runs = Vec::new();
    for (title, profile, program) in [
        ("an allowed route", &berths, include_str!("../guest/allowed.js")),
        (
            "a route that is not listed",
            &berths,
            include_str!("../guest/not_listed.js"),
        ),
        (
            "the same without the client",
            &berths,
            include_str!("../guest/without_client.js"),
        ),
        ("the same under grant crew", &crew, include_str!("../guest/crew.js")),
        ("a hostile program", &berths, include_str!("../guest/hostile.js")),
    ] {
        let before = api.requests();
        let run = run(&sandbox, profile, program).await?;
        writeln!(out, "{title}:")?;
        for line in run.stdout_text().lines() {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "  requests that reached the API: {}", api.requests() - before)?;
        runs.push(run);
    }

    writeln!(out, "call trace of the first run:")?;
    print_trace(&mut out, runs[0].calls.as_ref())?;
    writeln!(out, "call trace of the hostile run:")?;
    print_trace(&mut out, runs[4].calls.as_ref())?;
    writeln!(out, "the API's own log:")?;
    for line in api.log() {
        writeln!(out, "  {line}")?;
    }
    let checked = check(&runs, &api.credentials(), &secret)?;
    writeln!(out, "checked: {checked}")?;
    Ok(())
}

/// A key of 32 random bytes, known to the minter and to the API and to nobody else.
fn new_secret() -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let mut secret = Zeroizing::new(vec![0; 32]);
    fs_err::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// A grant as a value, without a grants file: routes of one API, and who makes the credential of each run.
fn grant(
    api: &Api,
    secret: &Zeroizing<Vec<u8>>,
    name: &str,
    allow: &[(&str, &str)],
    scopes: &[&str],
) -> anyhow::Result<Profile> {
    let minter = JwtMinter::new(JwtSettings {
        secret: secret.clone(),
        audience: AUDIENCE.to_owned(),
        issuer: String::new(),
        key_id: String::new(),
        ttl: Duration::from_secs(60),
    })?;
    let mut spec = GrantSpec::new(api.origin());
    spec.allow = allow
        .iter()
        .map(|(method, path)| (method.to_string(), path.to_string()))
        .collect();
    spec.scopes = scopes.iter().map(ToString::to_string).collect();
    spec.minter = Some(Arc::new(minter));
    Ok(Profile::direct(name, spec.validate()?))
}

async fn run(sandbox: &Sandbox, profile: &Profile, program: &str) -> anyhow::Result<Run> {
    let run = sandbox
        .run_javascript(program)
        .floor(Tier::Process)
        .timeout(Duration::from_secs(30))
        .grant(profile.clone(), SUBJECT)?
        .send()
        .await?;
    let (code, said) = (run.exit_code, run.stderr_text());
    anyhow::ensure!(code == 0, "a program ended with {code}: {said}");
    Ok(run)
}

/// Templates and numbers; times are left out here, so that two runs of this example print the same.
fn print_trace(out: &mut impl Write, calls: Option<&CallTrace>) -> std::io::Result<()> {
    let Some(calls) = calls else {
        return writeln!(out, "  no call");
    };
    for row in &calls.rows {
        let fate = if row.delivered { "delivered" } else { "withheld" };
        writeln!(
            out,
            "  {} {}: {} {fate}, {} bytes sent, {} received",
            row.seq,
            row.route(),
            row.status,
            row.req_bytes,
            row.resp_bytes
        )?;
    }
    writeln!(out, "  refused before anything was sent: {}", calls.denied)
}

/// Looks for every credential the API was shown, whole and in parts, and for the key, in all that came of the runs.
fn check(runs: &[Run], credentials: &[String], secret: &[u8]) -> anyhow::Result<String> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut needles: Vec<Vec<u8>> = vec![secret.to_vec(), hex.into_bytes()];
    for credential in credentials {
        needles.push(credential.clone().into_bytes());
        // The header is the same for everybody; claims and signature are this run's own.
        needles.extend(credential.split('.').skip(1).map(|part| part.as_bytes().to_vec()));
    }
    anyhow::ensure!(!credentials.is_empty(), "the API was shown no credential at all");
    let mut bytes = 0;
    for run in runs {
        // The formatted run holds its record, its diagnostics and its call trace.
        for (place, text) in [
            ("standard output", run.stdout.clone()),
            ("standard error", run.stderr.clone()),
            ("record, diagnostics or trace", format!("{run:?}").into_bytes()),
        ] {
            bytes += text.len();
            let leaked = needles
                .iter()
                .any(|needle| text.windows(needle.len()).any(|part| part == needle));
            anyhow::ensure!(!leaked, "a credential is in the {place} of a run");
        }
    }
    let mut tokens = credentials.to_vec();
    tokens.sort();
    tokens.dedup();
    anyhow::ensure!(bytes > 0, "there was nothing to look through");
    Ok(format!(
        "none of {} tokens, no part of one and not the key is in the output, record, diagnostics or trace of {} runs",
        tokens.len(),
        runs.len()
    ))
}
