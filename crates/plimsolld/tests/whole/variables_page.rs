//! `docs/variables.md` is what the table says.

#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/variables.md");
    let page = fs_err::read_to_string(path).unwrap();
    assert!(
        page == plimsolld::reference_page(),
        "docs/variables.md differs from the table; run: cargo run -p plimsolld --example variables_page > docs/variables.md"
    );
}
