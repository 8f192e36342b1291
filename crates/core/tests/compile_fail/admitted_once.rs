//! An authorized call is consumed by admission: it cannot be admitted twice on one comparison.
use plimsoll_core::{Authorized, Permit};

fn twice(call: Authorized<()>) {
    let _ = call.admit(Permit::new(()));
    let _ = call.admit(Permit::new(()));
}

fn main() {}
