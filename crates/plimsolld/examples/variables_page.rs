//! Writes the reference page of variables: `cargo run -p plimsolld --example variables_page > docs/variables.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(plimsolld::reference_page().as_bytes())
}
