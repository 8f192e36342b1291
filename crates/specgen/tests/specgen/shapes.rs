//! The artifacts, byte for byte.

use plimsoll_specgen::{Artifact, Options, Prefix, generate};

use crate::support::{BERTHS, generated, get, lines, paths, prefixed, specgen};

const PREAMBLE: &str = r#"// plimsoll-specgen output for "Harbour Berths", version "2.1"; regenerate instead of editing
;(function () {
  const h = globalThis["port"];
  if (!h) return;
  h["listBerths"] = () => h.get("/berths");
  h["getBerth"] = (berth_id) => h.get("/berths/" + berth_id);
  h["assign_berth"] = (berth_id, body) => h.put("/berths/" + berth_id, body);
  h["releaseBerth"] = (berth_id) => h.post("/berths/" + berth_id + "/release");
  h["ready"] = () => h.get("/ready");
  h["listTides"] = () => h.get("/tides");
})();
"#;

const ALLOW: &str = r#"[
  "GET /berths",
  "GET /berths/*",
  "PUT /berths/*",
  "POST /berths/*/release",
  "GET /ready",
  "GET /tides"
]
"#;

const DESCRIPTION: &str = "\
Harbour Berths (v2.1).
Code reaches this API through port.*. Only the operations listed here are permitted; every other request is refused. \
Credentials are attached outside the code, which never sees them.

  port.listBerths()  ->  GET /berths
      All berths.
  port.getBerth(berth_id)  ->  GET /berths/{berth-id}
      One berth.
  port.assign_berth(berth_id, body)  ->  PUT /berths/{berth-id}
  port.releaseBerth(berth_id)  ->  POST /berths/{berth-id}/release
  port.ready()  ->  GET /ready
  port.listTides()  ->  GET /tides
";

const BATCH: &str = "{\n  \"GET /berths\": [\n    \"GET /berths/*\"\n  ]\n}\n";

const SAID: &str = "\
plimsoll-specgen: skipped HEAD /berths/{berth-id} (HEAD is no method a grant can allow)
plimsoll-specgen: skipped GET /search (requires query \"q\")
plimsoll-specgen: warning: GET /tides: optional query \"day\" cannot be sent
";

#[test]
fn the_worked_example_is_emitted_byte_for_byte() {
    let all = format!(
        "=== allow ===\n{ALLOW}=== preamble ===\n{PREAMBLE}=== description ===\n{DESCRIPTION}=== health_check ===\nGET \
         /ready\n=== batch_of ===\n{BATCH}"
    );
    for (what, wanted) in [
        ("allow", ALLOW),
        ("catalog", ALLOW),
        ("preamble", PREAMBLE),
        ("description", DESCRIPTION),
        ("health", "GET /ready\n"),
        ("batch", BATCH),
        ("all", &all),
    ] {
        let ran = specgen(&["-global", "port", "-emit", what], BERTHS);
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, wanted, SAID),
            "{what}"
        );
    }
}

#[test]
fn yaml_and_json_of_one_document_yield_the_same() {
    let options = Options::default();
    let json = generate(BERTHS.as_bytes(), &options).unwrap();
    let yaml = generate(include_bytes!("../data/berths.yaml"), &options).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn the_json_object_has_its_keys_in_order_and_leaves_out_what_is_empty() {
    let text = specgen(&["-emit", "json"], BERTHS).stdout;
    let keys: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  \"")?.split_once('"'))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(
        keys,
        [
            "title",
            "version",
            "global",
            "allow",
            "preamble",
            "description",
            "skipped",
            "warnings",
            "health_check",
            "batch_of"
        ]
    );
    assert!(
        text.contains("\"HEAD /berths/{berth-id}: HEAD is no method a grant can allow\""),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["preamble"], PREAMBLE.replace("\"port\"", "\"host\""));
    assert!(text.ends_with("\n}\n"));

    let text = generated(&get("/a", "")).emit(Artifact::Json);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 7, "{keys:?}");
    assert!(
        value["health_note"]
            .as_str()
            .unwrap()
            .contains("x-plimsoll-health-check")
    );
    assert!(text.find("health_note").unwrap() > text.find("description").unwrap());
}

#[test]
fn a_document_without_marks_emits_no_health_and_no_batch() {
    let document = get("/status", "");
    for what in ["health", "batch"] {
        let ran = specgen(&["-emit", what], &document);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{what}");
        assert!(
            ran.stderr.starts_with("plimsoll-specgen: health_check not set: "),
            "{}",
            ran.stderr
        );
    }
    let all = specgen(&[], &document).stdout;
    assert!(
        !all.contains("=== health_check") && !all.contains("=== batch_of"),
        "{all}"
    );
}

#[test]
fn names_and_arguments_avoid_words_bindings_and_each_other() {
    let generated = generated(include_str!("../data/names.yaml"));
    let preamble = generated.emit(Artifact::Preamble);
    assert_eq!(
        preamble,
        r#"// plimsoll-specgen output for "Names", version "1.10"; regenerate instead of editing
;(function () {
  const h = globalThis["host"];
  if (!h) return;
  h["put_body"] = (body_, body) => h.put("/bodies/" + body_, body);
  h["postBody"] = (body) => h.post("/bodies/" + body);
  h["delete"] = (default_) => h.get("/default/" + default_);
  h["_1st"] = (h_) => h.get("/h/" + h_);
  h["items_remove"] = (item_id) => h.del("/items/" + item_id);
  h["pair"] = (a_b, a_b_, body) => h.patch("/pairs/" + a_b + "/" + a_b_, body);
  h["class"] = (anything) => h.get("/" + anything);
})();
"#
    );
    let description = generated.emit(Artifact::Description);
    assert!(description.starts_with("Names (v1.10).\n"), "{description}");
    assert!(
        description.contains("  host.postBody(body)  ->  POST /bodies/{body}\n"),
        "{description}"
    );
    assert!(
        description.contains("  host.items_remove(item_id)  ->  DELETE /items/{item-id}\n"),
        "{description}"
    );
}

#[test]
fn nothing_in_a_document_leaves_its_line_or_its_literal() {
    let generated = generate(
        include_bytes!("../data/injection.json"),
        &Options {
            global: "x\"];evil//".to_owned(),
            ..Options::default()
        },
    )
    .unwrap();
    let preamble = generated.emit(Artifact::Preamble);
    assert_eq!(preamble.lines().count(), 3 + 5, "{preamble}");
    assert_eq!(
        preamble,
        r#"// plimsoll-specgen output for "\u003c/script\u003e\u003cscript\u003e", version "1 */ x; /*"; regenerate instead of editing
;(function () {
  const h = globalThis["x\"];evil//"];
  if (!h) return;
  h["x____globalThis_broken___1____"] = () => h.get("/a");
  h["_$_globalThis_broken___3__"] = (x_____globalThis_broken___2____, body) => h.post("/b/" + x_____globalThis_broken___2____, body);
  h["_"] = () => h.get("/c\u0026d/$e");
})();
"#
    );
    let description = generated.emit(Artifact::Description);
    assert!(
        description.contains("      One. host.forged() -> GET /secret more\n"),
        "{description}"
    );
    assert!(
        description.contains("  globalThis[\"x\\\"];evil//\"].x____globalThis_broken___1____()  ->  GET /a\n"),
        "{description}"
    );
}

#[test]
fn a_title_and_a_version_keep_their_source_text() {
    for (info, line) in [
        ("{title: T, version: 1.10}", "T (v1.10).\n"),
        ("{title: 0x10, version: 1e3}", "0x10 (v1e3).\n"),
        ("{title: ' T ', version: ''}", "T.\n"),
        ("{version: 2}", "host API (v2).\n"),
        ("{}", "host API.\n"),
    ] {
        let document = format!("openapi: 3.1\ninfo: {info}\npaths: {{/a: {{get: {{operationId: a}}}}}}\n");
        let text = generated(&document).emit(Artifact::Description);
        assert!(text.starts_with(line), "{info}: {text}");
    }
    let json =
        r#"{"openapi": 3.10, "info": {"title": 1.50, "version": 1E0}, "paths": {"/a": {"get": {"operationId": "a"}}}}"#;
    let text = generated(json).emit(Artifact::Description);
    assert!(text.starts_with("1.50 (v1E0).\n"), "{text}");
}

#[test]
fn a_body_argument_needs_a_declared_body_and_a_verb_that_sends_one() {
    let document = paths(
        r#""/a": {"get": {"operationId": "a1", "requestBody": {}}, "put": {"operationId": "a2", "requestBody": {}},
                  "post": {"operationId": "a3"}, "delete": {"operationId": "a4", "requestBody": {}},
                  "patch": {"operationId": "a5", "requestBody": null}}"#,
    );
    let preamble = generated(&document).emit(Artifact::Preamble);
    let methods: Vec<&str> = preamble.lines().filter(|line| line.starts_with("  h[")).collect();
    assert_eq!(
        methods,
        [
            r#"  h["a1"] = () => h.get("/a");"#,
            r#"  h["a2"] = (body) => h.put("/a", body);"#,
            r#"  h["a3"] = () => h.post("/a");"#,
            r#"  h["a4"] = () => h.del("/a");"#,
            r#"  h["a5"] = () => h.patch("/a");"#,
        ]
    );
}

#[test]
fn routes_that_coincide_are_listed_once_and_sorted_by_path_then_verb() {
    let document = paths(
        r#""/b/{y}": {"delete": {"operationId": "d"}, "get": {"operationId": "g"}}, "/b/{x}": {"get": {"operationId": "e"}},
           "/b": {"patch": {"operationId": "p"}}, "/a/b": {"post": {"operationId": "q"}}"#,
    );
    let generated = generated(&document);
    assert_eq!(lines(&generated), ["POST /a/b", "PATCH /b", "DELETE /b/*", "GET /b/*"]);
    assert_eq!(generated.operations(), 5);
    assert_eq!(generated.emit(Artifact::Preamble).lines().count(), 5 + 5);
}

#[test]
fn local_references_are_followed_and_the_later_parameter_wins() {
    let generated = generated(include_str!("../data/references.yaml"));
    assert_eq!(
        lines(&generated),
        ["GET /ships", "GET /ships/*", "PUT /vessels/*", "GET /vessels/*/crew"]
    );
    let skipped: Vec<String> = generated
        .skipped()
        .iter()
        .map(|skip| format!("{}: {}", skip.operation, skip.reason))
        .collect();
    assert_eq!(skipped, ["DELETE /ships/{ship}: requires header \"trace\""]);
    assert_eq!(
        generated.warnings(),
        [
            "GET /ships/{ship}: optional header \"trace\" cannot be sent",
            "GET /vessels/{ship}/crew: optional header \"trace\" cannot be sent"
        ]
    );
}

#[test]
fn a_prefix_stands_before_every_route_and_every_call() {
    let document = include_bytes!("../data/references.yaml");
    let plain = generate(document, &Options::default()).unwrap();
    assert_eq!(plain.notes().len(), 1);
    assert!(plain.notes()[0].contains("\"/api/v7\""), "{:?}", plain.notes());

    let auto = generate(document, &prefixed(Prefix::Auto)).unwrap();
    assert_eq!(lines(&auto)[0], "GET /api/v7/ships");
    assert!(
        auto.emit(Artifact::Preamble)
            .contains(r#"  h["getShip"] = (ship) => h.get("/api/v7/ships/" + ship);"#)
    );
    assert!(
        auto.emit(Artifact::Description)
            .contains("  host.getShip(ship)  ->  GET /api/v7/ships/{ship}\n")
    );
    assert_eq!(auto.notes(), ["the prefix \"/api/v7\" comes from servers"]);

    let named = generate(document, &prefixed(Prefix::Path("/x".to_owned()))).unwrap();
    assert_eq!(lines(&named)[0], "GET /x/ships");
    assert!(named.notes().is_empty());
    let none = generate(document, &prefixed(Prefix::Path("/".to_owned()))).unwrap();
    assert_eq!(lines(&none), lines(&plain));
}

#[test]
fn an_operation_with_servers_of_its_own_is_named() {
    let own = get("/a", r#", "servers": [{"url": "https://uploads.example.com"}]"#);
    let warnings = generated(&own).warnings().to_vec();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("GET /a: has servers of its own"),
        "{warnings:?}"
    );
}

#[test]
fn what_was_refused_is_left_out_with_its_reason_when_asked_for() {
    let document = paths(
        r#""/ok": {"get": {"operationId": "ok"}}, "/files/{name}.json": {"get": {"operationId": "file"}},
           "/q?a=b": {"get": {"operationId": "query"}, "post": {"operationId": "queryToo"}},
           "/x/": {"get": {"operationId": "slash"}}, "/y": {"get": {}, "put": {"operationId": "get"}, "post": {"operationId": "o.k"}},
           "/z": {"get": {"operationId": "o-k"}}"#,
    );
    assert_eq!(problems_of(&document), 7);
    let options = Options {
        skip_unsupported: true,
        ..Options::default()
    };
    let generated = generate(document.as_bytes(), &options).unwrap();
    assert_eq!(lines(&generated), ["GET /ok", "POST /y"]);
    let skipped: Vec<(&str, &str)> = generated
        .skipped()
        .iter()
        .map(|skip| (skip.operation.as_str(), skip.reason.as_str()))
        .collect();
    let names: Vec<&str> = skipped.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(
        names,
        [
            "GET /files/{name}.json",
            "GET /q?a=b",
            "POST /q?a=b",
            "GET /x/",
            "GET /y",
            "PUT /y",
            "GET /z"
        ]
    );
    assert!(
        skipped[0].1.contains("whole segment") && skipped[1].1.contains("query"),
        "{skipped:?}"
    );
    assert!(skipped[6].1.contains("collides with that of POST /y"), "{skipped:?}");
}

fn problems_of(document: &str) -> usize {
    crate::support::problems(document).len()
}

#[test]
fn only_the_named_operations_are_looked_at() {
    let document = paths(
        r#""/a/{id}.json": {"get": {"operationId": "broken"}}, "/b": {"get": {"operationId": "b", "x-plimsoll-batch-of": ["c"]}},
           "/c/{c}": {"get": {"operationId": "c"}}, "/d": {"$ref": "other.yaml"}, "/e": {"get": {}}"#,
    );
    let only = |ids: &[&str]| {
        let options = Options {
            only: Some(ids.iter().map(ToString::to_string).collect()),
            ..Options::default()
        };
        generate(document.as_bytes(), &options)
    };
    let generated = only(&["c", "b"]).unwrap();
    assert_eq!(
        (lines(&generated), generated.operations()),
        (vec!["GET /b".into(), "GET /c/*".into()], 2)
    );
    assert_eq!(generated.batch_of().len(), 1);
    let generated = only(&["b"]).unwrap();
    assert!(generated.batch_of().is_empty() && generated.warnings()[0].contains("-only leaves that out"));
    let refused = only(&["b", "nobody", "nothing"]).unwrap_err();
    assert!(refused.problems().iter().any(|problem| problem.contains("\"nobody\"")));
    assert!(refused.problems().iter().any(|problem| problem.contains("\"nothing\"")));
    assert!(only(&["broken"]).is_err());
}

#[test]
fn routes_are_sorted_by_path_and_then_by_the_text_of_the_verb_and_operations_by_their_verbs() {
    let verbs = ["patch", "get", "delete", "put", "post"];
    let operations: Vec<String> = verbs
        .iter()
        .map(|verb| format!(r#""{verb}": {{"operationId": "by_{verb}"}}"#))
        .collect();
    let generated = generated(&paths(&format!(r#""/b": {{{}}}"#, operations.join(", "))));
    let allow: Vec<String> = serde_json::from_str(&generated.emit(Artifact::Allow)).expect("a list");
    assert_eq!(allow, ["DELETE /b", "GET /b", "PATCH /b", "POST /b", "PUT /b"]);
    let preamble = generated.emit(Artifact::Preamble);
    let order: Vec<usize> = ["by_get", "by_put", "by_post", "by_delete", "by_patch"]
        .iter()
        .map(|name| preamble.find(name).expect("an operation"))
        .collect();
    assert!(order.is_sorted(), "{preamble}");
}
