//! The floor is not compared before the grant step: an unknown profile must not learn what the wall is.
use plimsoll_core::{Evidence, RunRequest, Validated};

fn main() {
    let validated = Validated::new(RunRequest::javascript("1")).unwrap();
    let _ = validated.authorize(&Evidence::disabled());
}
