//! Advice: what a run could have asked more cheaply, from the metadata of its calls alone. Thirteen calls where one would do,
//! what the caller and the operator are told of it, the report page, and the better program, of which nothing is said.
//!
//! ```text
//! cargo run --release -p example-advisor
//! ```
//!
//! One executable plays the caller and, started once more, the daemon, as in the example `daemon`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context as _;
use example_support::{Daemon, new_token, write_clients_file, write_private};
use plimsoll_advisor::report;
use plimsoll_client::{Client, JavaScriptResult};
use plimsoll_core::{AdviceFinding, Tier};
use serde_json::{Value, json};

mod api;

/// The variable the grants file names for the API's token.
const TOKEN_VARIABLE: &str = "PORT_API_TOKEN";

fn main() -> ExitCode {
    if let Some(served) = example_support::as_daemon() {
        return served;
    }
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
    {
        Ok(runtime) => match runtime.block_on(caller_and_operator()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    }
}

async fn caller_and_operator() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let folder = tempfile::tempdir()?;
    let (alice, api_token) = (new_token()?, new_token()?);
    let api = api::Api::start(&api_token).await?;
    let (clients_file, grants_file) = (folder.path().join("clients.json"), folder.path().join("grants.json"));
    write_clients_file(&clients_file, &[("alice", &alice)])?;
    write_private(&grants_file, &grants(api.origin()))?;
    let daemon = Daemon::start(
        &clients_file,
        &[
            ("PLIMSOLL_GRANTS_FILE", grants_file.as_os_str()),
            (TOKEN_VARIABLE, api_token.as_ref()),
        ],
    )?;
    let client = Client::builder(daemon.url())
        .token(&alice)
        .javascript_grant("port")
        .build()?;

    for (title, program) in [
        ("one by one", include_str!("../guest/one_by_one.js")),
        ("at once", include_str!("../guest/at_once.js")),
    ] {
        let before = api.requests();
        let result = run(&client, program).await?;
        write!(out, "{title}: {}", result.stdout_text())?;
        writeln!(out, "  requests the API saw: {}", api.requests() - before)?;
        match result.advice.as_slice() {
            [] => writeln!(out, "  advice to the caller: none")?,
            findings => findings
                .iter()
                .try_for_each(|finding| print_finding(&mut out, finding))?,
        }
    }

    let log = daemon.stop()?;
    print_audit(&mut out, &log)?;
    let page = write_report(folder.path(), &log, &grants_file)?;
    writeln!(out, "report: {}", page.display())?;
    Ok(())
}

/// What the operator writes: the routes, who may use them, and that one call of the list answers for many of single berths.
fn grants(origin: &str) -> Value {
    json!({ "profiles": { "port": {
        "base_url": origin,
        "allow": ["GET /berths", "GET /berths/*"],
        "batch_of": { "GET /berths": ["GET /berths/*"] },
        "allowed_callers": ["alice"],
        "token": { "type": "static", "env": TOKEN_VARIABLE },
        "global": "port",
        "advice": "caller",
        "advice_retention": "detailed",
    } } })
}

async fn run(client: &Client, program: &str) -> anyhow::Result<JavaScriptResult> {
    let result = client.run_javascript(program).floor(Tier::Process).send().await?;
    anyhow::ensure!(result.exit_code == 0, "the program failed: {}", result.stderr_text());
    Ok(result)
}

fn print_finding(out: &mut impl Write, finding: &AdviceFinding) -> std::io::Result<()> {
    writeln!(
        out,
        "  advice to the caller: {} ({}), remedy {}, of {} {}",
        finding.pattern, finding.severity, finding.remedy, finding.method, finding.route
    )?;
    writeln!(
        out,
        "    instead: {} {}",
        finding.suggested_method, finding.suggested_route
    )?;
    writeln!(
        out,
        "    modelled cost: {} extra calls, {} ms, {} bytes",
        finding.extra_calls, finding.added_latency_ms, finding.bytes_moved
    )?;
    writeln!(out, "    {}", finding.detail)
}

/// What the log keeps of each run: route templates and numbers.
fn print_audit(out: &mut impl Write, log: &str) -> anyhow::Result<()> {
    for line in log.lines() {
        let record: Value = serde_json::from_str(line).context("every line of the log is JSON")?;
        if record["msg"] != "code run" {
            continue;
        }
        let members = record.as_object().context("a record is an object")?;
        let about_calls = |key: &str| {
            key == "caller" || key == "grant_profile" || key.starts_with("host_calls") || key.starts_with("advice")
        };
        let kept: Vec<String> = members
            .iter()
            .filter(|(key, _)| about_calls(key))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        writeln!(out, "audit: {}", kept.join(" "))?;
    }
    Ok(())
}

/// Writes the page that `plimsoll report` writes, from the daemon's log, to a file that stays.
fn write_report(folder: &Path, log: &str, grants_file: &Path) -> anyhow::Result<PathBuf> {
    let log_file = folder.join("audit.jsonl");
    fs_err::write(&log_file, log)?;
    let page = tempfile::Builder::new()
        .prefix("plimsoll-advice-")
        .suffix(".html")
        .tempfile()?;
    let (_, page) = page.keep()?;
    let options = report::Options {
        output: Some(page.clone()),
        grants: Some(grants_file.to_owned()),
        source: "the example's daemon".to_owned(),
        log: Some(log_file),
        ..report::Options::default()
    };
    let mut said = Vec::new();
    let mut streams = report::Streams {
        stdin: &mut std::io::empty(),
        stdout: &mut std::io::sink(),
        stderr: &mut said,
    };
    let status = report::run_with(&options, "report", SystemTime::now(), &mut streams);
    anyhow::ensure!(status == 0, "no report: {}", String::from_utf8_lossy(&said));
    Ok(page)
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let _nowhere_to_report = writeln!(std::io::stderr(), "example-advisor: {error:#}");
    ExitCode::FAILURE
}
