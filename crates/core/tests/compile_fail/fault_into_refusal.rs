//! A `?` that would turn "may have run" into "nothing ran" does not type-check.
use plimsoll_core::{Fault, Refusal};

fn ran() -> Result<(), Fault> {
    Err(Fault::internal("broke after dispatch"))
}

fn answer() -> Result<(), Refusal> {
    ran()?;
    Ok(())
}

fn main() {
    let _ = answer();
}
