//! Foreign code cannot make an admitted call out of thin air.
use plimsoll_core::{Admitted, NoGrant};

fn forge() -> Admitted {
    Admitted { call: todo!(), grant: NoGrant, permit: todo!() }
}

fn main() {
    forge();
}
