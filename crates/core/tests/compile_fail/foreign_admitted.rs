//! Foreign code cannot make an admitted call out of thin air.
use plimsoll_core::Admitted;

fn forge() -> Admitted<()> {
    Admitted { call: todo!(), grant: (), permit: todo!() }
}

fn main() {
    forge();
}
