//! The sandbox inside somebody's own program: a price list whose rules are snippets that users wrote.
//!
//! The program keeps its data and its decisions; a rule only ever sees the order it is given and only ever answers on
//! standard output. What can go wrong with a rule is shown one by one: it fails, it never ends, it wants too much memory,
//! or the wall is not the one the program insists on.
//!
//! ```text
//! cargo run --release -p example-embed
//! ```

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use plimsoll::{Reason, Run, RunError, Sandbox, Tier};

/// What one user wrote: orders above 100 get a tenth off.
const DISCOUNT: &str = "order.total > 100 ? order.total * 0.9 : order.total";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let sandbox = Sandbox::wasm().memory_mb(64).max_concurrent(4).build().await?;
    let mut out = std::io::stdout().lock();

    let priced = price(&sandbox, DISCOUNT, 250.0).await?;
    let answer: f64 = serde_json::from_slice(&priced.stdout).context("a rule answers with one number")?;
    writeln!(
        out,
        "an order of 250 costs {answer}, computed behind tier {}",
        priced.tier
    )?;

    let failed = price(&sandbox, "order.customer.name", 250.0).await?;
    writeln!(
        out,
        "a rule that fails: exit {}, {}",
        failed.exit_code,
        first_line(&failed)
    )?;

    let endless = price(&sandbox, "(() => { while (true) {} })()", 250.0).await?;
    writeln!(
        out,
        "a rule that never ends: exit {}, timed out: {}",
        endless.exit_code, endless.timed_out
    )?;

    let greedy = price(&sandbox, "new Uint8Array(1024 ** 3).length", 250.0).await?;
    writeln!(
        out,
        "a rule that wants 1 GiB of its 64 MiB: exit {}, {}",
        greedy.exit_code,
        first_line(&greedy)
    )?;

    match sandbox.run_javascript("1").floor(Tier::Vm).send().await {
        Err(RunError::NotDispatched(refusal)) if refusal.reason() == Reason::Isolation => {
            writeln!(out, "a floor of vm: {}", refusal.message())?;
        }
        other => anyhow::bail!("a process must not pass for a virtual machine: {other:?}"),
    }
    Ok(())
}

/// Runs one rule on one order. The order travels as JSON inside the program text, so it is data whatever it holds.
async fn price(sandbox: &Sandbox, rule: &str, total: f64) -> Result<Run, RunError> {
    let order = serde_json::json!({ "total": total });
    let program = format!("const order = {order};\nconsole.log(JSON.stringify({rule}));");
    sandbox
        .run_javascript(program)
        .floor(Tier::Process)
        .timeout(Duration::from_millis(200))
        .send()
        .await
}

fn first_line(run: &Run) -> String {
    let text = run.stderr_text();
    let line = text.lines().find(|line| line.contains("Error")).unwrap_or_default();
    line.to_owned()
}
