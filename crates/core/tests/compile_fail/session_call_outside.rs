//! A session call is no single run: it cannot be handed to whatever takes one.
use plimsoll_core::{Admitted, InTurn};

fn run_once(_: Admitted<()>) {}

fn call(in_turn: InTurn<()>) {
    run_once(in_turn);
}

fn main() {
    let _ = call;
}
