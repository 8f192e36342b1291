//! A validated request cannot be admitted before it was compared with evidence.
use plimsoll_core::{Permit, RunRequest, Validated};

fn main() {
    let validated = Validated::new(RunRequest::javascript("1")).unwrap().grant(|_| Ok(())).unwrap();
    let _ = validated.admit(Permit::new(()));
}
