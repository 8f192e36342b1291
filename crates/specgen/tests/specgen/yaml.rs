//! YAML 1.2, core schema, one document.

use std::fmt::Write as _;

use crate::support::{generated, lines, refused};

/// A document whose one operation has these further members, each on its own line.
fn with(members: &str) -> String {
    format!("openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n{members}")
}

#[test]
fn only_the_core_schema_makes_types() {
    for (value, kind) in [
        ("yes", "a string"),
        ("on", "a string"),
        ("'true'", "a string"),
        ("!!str true", "a string"),
        ("1", "a number"),
        ("0x1", "a number"),
        ("-.5e3", "a number"),
        (".inf", "a number"),
        ("[]", "an array"),
    ] {
        refused(
            &with(&format!("      x-plimsoll-health-check: {value}\n")),
            &["x-plimsoll-health-check", kind],
        );
    }
    for value in ["true", "True", "TRUE", "!!bool true", "!!bool 'true'"] {
        let generated = generated(&with(&format!("      x-plimsoll-health-check: {value}\n")));
        assert!(generated.health_check().is_some(), "{value}");
    }
    for value in ["", "~", "null", "Null", "!!null ''", "false"] {
        let generated = generated(&with(&format!("      x-plimsoll-health-check: {value}\n")));
        assert!(generated.health_check().is_none(), "{value}");
    }
    // A date, a version with two dots and a base-60 number of YAML 1.1 are text.
    for value in ["2020-01-01", "1.2.3", "12:30:45", "0b1", "1_000", "."] {
        assert_eq!(
            lines(&generated(&with(&format!("      summary: {value}\n")))).len(),
            1,
            "{value}"
        );
    }
    refused(&with("      summary: 0o17\n"), &["summary", "a number"]);
}

#[test]
fn what_readers_disagree_about_is_refused() {
    for (document, fragments) in [
        (
            with("      operationId: b\n"),
            ["\"operationId\" stands twice", "line 6"],
        ),
        (with("      x: {a: 1, a: 2}\n"), ["\"a\" stands twice", "line 6"]),
        (with("      x: {1: 1, '1': 2}\n"), ["\"1\" stands twice", "line 6"]),
        (with("      x: !point {a: 1}\n"), ["the tag \"!point\"", "line 6"]),
        (with("      x: !!binary aGk=\n"), ["the tag \"!!binary\"", "line 6"]),
        (with("      x: !!python/object:os.system [a]\n"), ["the tag", "line 6"]),
        (with("      x: !!set {a, b}\n"), ["the tag \"!!set\"", "line 6"]),
        (
            with("      x: !!int seven\n"),
            ["not what its tag !!int says", "line 6"],
        ),
        (with("      x: &loop [*loop]\n"), ["stands in", "line 6"]),
        (with("      x: &loop {a: {b: *loop}}\n"), ["stands in", "line 6"]),
        (with("      x: *nobody\n"), ["invalid YAML", "line 6"]),
        (with("      x: {[a]: 1}\n"), ["a key must be a scalar", "line 6"]),
        (
            with("      ? {a: 1}\n      : 1\n"),
            ["a key must be a scalar", "line 6"],
        ),
        (with("---\nopenapi: 3.0.0\n"), ["more than one document", "line 6"]),
        (with("      <<: {summary: x}\n"), ["`<<` merges", "line 6"]),
        (with("\tx: 1\n"), ["invalid YAML", "tab"]),
        (with("      x: \"\n"), ["invalid YAML", "line"]),
    ] {
        refused(&document, &fragments);
    }
    // Inside what is not read, a key of that name is a key.
    assert_eq!(lines(&generated(&with("      x: {<<: 1}\n"))).len(), 1);
}

#[test]
fn an_alias_stands_for_its_node_also_inside_another_anchor() {
    let document = "openapi: 3.0.0
x: &ids [&one item]
y: &item {get: &get {operationId: *one}}
z: &deep {wrapped: *item, other: &put {operationId: all, x-plimsoll-batch-of: *ids}}
paths:
  /items/{id}: *item
  ? /items
  : {get: *put}
";
    let generated = generated(document);
    assert_eq!(lines(&generated), ["GET /items", "GET /items/*"]);
    assert_eq!(generated.batch_of().len(), 1);
}

#[test]
fn aliases_that_multiply_are_cut_off() {
    let mut document = "openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = level - 1;
        let _ = writeln!(
            document,
            "a{level}: &a{level} [{}]",
            vec![format!("*a{inner}"); 10].join(", ")
        );
    }
    document.push_str("paths: {/a: {get: {operationId: a}}}\n");
    refused(&document, &["aliases expand to more than"]);

    let long = "s".repeat(1024 * 1024);
    let document = format!(
        "openapi: 3.0.0\na: &a {long}\nb: [{}]\npaths: {{/a: {{get: {{operationId: a}}}}}}\n",
        vec!["*a"; 70].join(", ")
    );
    refused(&document, &["aliases expand to more than"]);
}

#[test]
fn a_byte_order_mark_is_no_content() {
    assert_eq!(lines(&generated(&format!("\u{feff}{}", with("")))), ["GET /a"]);
    let json = "\u{feff}{\"openapi\": \"3.0.0\", \"paths\": {\"/a\": {\"get\": {\"operationId\": \"a\"}}}}";
    assert_eq!(lines(&generated(json)), ["GET /a"]);
}
