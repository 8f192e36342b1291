//! What must not compile: each file is a program that would break the corridor.

#[test]
fn the_corridor_cannot_be_left() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
