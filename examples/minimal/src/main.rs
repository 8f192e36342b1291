//! One snippet in a fresh sandbox, and the wall it ran behind. Needs nothing but this repository.
//!
//! ```text
//! cargo run --release -p example-minimal
//! ```

use std::io::Write as _;

use plimsoll::{Sandbox, Tier};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let sandbox = Sandbox::wasm().build().await?;
    let run = sandbox
        .run_javascript(include_str!("../payroll.js"))
        .floor(Tier::Process)
        .send()
        .await?;
    anyhow::ensure!(run.exit_code == 0, "the snippet failed: {}", run.stderr_text());

    let mut out = std::io::stdout().lock();
    out.write_all(&run.stdout)?;
    writeln!(out, "ran behind tier {}, record {}", run.tier, run.record.record_sha256)?;
    Ok(())
}
