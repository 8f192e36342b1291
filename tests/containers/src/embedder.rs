//! A program that embeds the sandbox, for tests that kill it or count what it leaves behind. Its variables are the
//! provider's; its first argument says what it does, and it speaks JSON lines on standard output.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use plimsoll::{Project, Sandbox};
use plimsoll_docker::engine::Engine;
use plimsoll_docker::orphans::{PrivateFolder, reconcile};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let what = std::env::args().nth(1).context("the first argument says what to do")?;
    match what.as_str() {
        "hold" => hold(&Sandbox::from_env().await?).await,
        "hold-step" => {
            let step = std::env::args().nth(2).context("the second argument is the step")?;
            hold_step(&Sandbox::from_env().await?, step).await
        }
        "answer-step" => {
            let step = std::env::args().nth(2).context("the second argument is the step")?;
            answer_step(&Sandbox::from_env().await?, step).await
        }
        "series" => series(&Sandbox::from_env().await?).await,
        "reconcile" => clear_away().await,
        other => bail!("no such task: {other}"),
    }
}

/// What a daemon does at its start and every minute: removes what dead owners left.
async fn clear_away() -> anyhow::Result<()> {
    let (engine, _) = Engine::connect(Path::new("/var/run/docker.sock")).await?;
    let own = PrivateFolder::open().await?;
    let removed = reconcile(&engine, &own, |_| false).await?;
    tell(&json!({ "removed": removed }))
}

/// Says that it is there, and has a run going until it is killed.
async fn hold(sandbox: &Sandbox) -> anyhow::Result<()> {
    tell(&json!({ "holds": true }))?;
    let busy = "sleep 118 & node -e 'setInterval(() => {}, 1); for (;;);'";
    let project = Project::new().step(busy);
    let snippet = sandbox
        .run_javascript("for (;;);")
        .any_tier()
        .timeout(Duration::from_secs(30));
    let project = sandbox
        .run_project(project)
        .any_tier()
        .timeout(Duration::from_secs(120));
    let (snippet, project) = tokio::join!(snippet.send(), project.send());
    bail!("the runs ended: {snippet:?} {project:?}")
}

/// As [`hold`], with one project of this step.
async fn hold_step(sandbox: &Sandbox, step: String) -> anyhow::Result<()> {
    tell(&json!({ "holds": true }))?;
    let project = sandbox.run_project(Project::new().step(step)).any_tier();
    let ended = project.timeout(Duration::from_secs(120)).send().await;
    bail!("the run ended: {ended:?}")
}

/// Says that it is there, runs a project of this step, and says which limit it met.
async fn answer_step(sandbox: &Sandbox, step: String) -> anyhow::Result<()> {
    tell(&json!({ "holds": true }))?;
    let project = sandbox.run_project(Project::new().step(step)).any_tier();
    let ran = project.timeout(Duration::from_secs(120)).send().await?;
    let limit = ran.diagnostics.limit_hit.map(|limit| limit.as_str());
    tell(&json!({ "limit": limit, "outcome": ran.outcome_detail }))
}

/// Runs of every end, and what there is before and after them.
async fn series(sandbox: &Sandbox) -> anyhow::Result<()> {
    let once = || every_end(sandbox);
    // What is made once and kept is made by the first round.
    once().await?;
    let before = settled().await?;
    let mut containers = BTreeSet::new();
    for _ in 0..4 {
        containers.extend(once().await?);
    }
    let after = settled().await?;
    tell(&json!({ "before": before, "after": after, "containers": containers }))?;
    sandbox.drain().await.map_err(|fault| anyhow::anyhow!("{fault:?}"))
}

/// What there is once it has not changed for two seconds; a pool is full again by then.
async fn settled() -> anyhow::Result<serde_json::Value> {
    let mut last = counts()?;
    let mut same = 0;
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = counts()?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if same == 4 {
            return Ok(last);
        }
    }
    bail!("it never settles: {last}")
}

/// One run of each end: success, failure, time limit, out of memory, and a caller that goes away. The host names of their
/// containers.
async fn every_end(sandbox: &Sandbox) -> anyhow::Result<Vec<String>> {
    const SAY: &str = "require('fs').writeSync(1, require('os').hostname());";
    let mut containers = Vec::new();
    for end in [
        "",
        "process.exit(3)",
        "for (;;);",
        "const held = []; for (;;) held.push(Buffer.alloc(8 << 20, 1));",
    ] {
        let call = sandbox.run_javascript(format!("{SAY}{end}")).any_tier();
        let ran = call.timeout(Duration::from_secs(2)).send().await?;
        containers.push(ran.stdout_text().into_owned());
    }
    let project = Project::new()
        .step("hostname || cat /etc/hostname")
        .step("sleep 300 & echo x > out")
        .artifact("out");
    let ran = sandbox.run_project(project).any_tier().send().await?;
    containers.push(
        ran.steps
            .first()
            .map(|step| step.stdout_text().trim().to_owned())
            .unwrap_or_default(),
    );
    for patience in [20, 400] {
        let gone = sandbox.run_javascript("for (;;);").any_tier().send();
        // A caller that drops its future has cancelled the run.
        let _: Result<_, _> = tokio::time::timeout(Duration::from_millis(patience), gone).await;
    }
    containers.retain(|name| !name.is_empty());
    Ok(containers)
}

/// What this process holds: descriptors, and entries of its folder for temporary files.
fn counts() -> anyhow::Result<serde_json::Value> {
    let entries = |path: &str| -> anyhow::Result<usize> { Ok(fs_err::read_dir(path)?.count()) };
    let temp = std::env::temp_dir();
    let temp = temp.to_str().context("TMPDIR is text")?;
    Ok(json!({
        "descriptors": entries("/proc/self/fd")?,
        "folders": entries(temp)?,
    }))
}

fn tell(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(())
}
