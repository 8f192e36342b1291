//! Every client that is generated from a document works in the engine: it defines its operations and nothing else, and each
//! of them calls a route that its own allow list permits.
//!
//! The large documents are not ours: `tools/openapi-documents.sh` fetches them, and `PLIMSOLL_OPENAPI_DOCUMENTS` names their
//! folder.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

#[path = "../crates/plimsolld/tests/whole/grants/api.rs"]
mod api;

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::{Api, ok};
use plimsoll::Sandbox;
use plimsoll::grants::{GrantSpec, Profile, Route};
use plimsoll_specgen::{Artifact, Generated, Options, Prefix, generate};

/// Calls every operation the client has beside its own members, and prints how many there were.
const CALL_ALL: &str = r#"
const own = new Set(["call", "get", "put", "post", "patch", "del"]);
const names = Object.keys(host).filter((name) => !own.has(name));
for (const name of names) {
  const operation = host[name];
  await operation.apply(host, Array.from({ length: operation.length }, (_, at) => "a" + at));
}
console.log(names.length, Object.keys(globalThis).filter((name) => name !== "host").length);
"#;

/// The same where no client is: what a program finds in the global scope anyway.
const BARE: &str = "console.log(0, Object.keys(globalThis).length)";

async fn works(sandbox: &Sandbox, document: &Path, options: &Options) -> usize {
    let name = document.display();
    let generated = generate(&fs_err::read(document).unwrap(), options).unwrap_or_else(|refused| {
        panic!("{name}: {:?}", refused.problems());
    });
    let api = Api::start(|_| ok("{}"));
    let run = sandbox
        .run_javascript(CALL_ALL)
        .any_tier()
        .timeout(Duration::from_secs(30))
        .grant(Profile::direct("generated", grant(&api, &generated)), "tester")
        .unwrap()
        .send()
        .await
        .unwrap();
    let bare = sandbox.run_javascript(BARE).any_tier().send().await.unwrap();
    assert_eq!(run.exit_code, 0, "{name}: {}{}", run.stdout_text(), run.stderr_text());
    // One line an operation, and five around them.
    let operations = generated.emit(Artifact::Preamble).lines().count() - 5;
    let expected = bare.stdout_text().replacen('0', &operations.to_string(), 1);
    assert_eq!(run.stdout_text(), expected, "{name}");

    let lines = api.lines();
    assert_eq!(lines.len(), operations, "{name}: one call an operation");
    for line in lines {
        let asked = Route::parse_line(&line).unwrap();
        let permitted = |route: &&Route| covers(route, &asked);
        assert!(
            generated.allow().iter().any(|route| permitted(&route)),
            "{name}: {line}"
        );
    }
    operations
}

fn grant(api: &Api, generated: &Generated) -> plimsoll::grants::Grant {
    let mut spec = GrantSpec::new(api.origin());
    spec.allow = generated
        .allow()
        .iter()
        .map(|route| (route.method().as_str().to_owned(), route.path().to_owned()))
        .collect();
    spec.preamble = generated.emit(Artifact::Preamble);
    spec.max_calls = 100_000;
    spec.validate().unwrap()
}

/// Segment by segment, without the code under test.
fn covers(route: &Route, asked: &Route) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) =
        (route.path().split('/').collect(), asked.path().split('/').collect());
    route.method() == asked.method()
        && pattern.len() == path.len()
        && pattern
            .iter()
            .zip(path)
            .all(|(wanted, given)| *wanted == "*" || *wanted == given)
}

#[tokio::test]
async fn the_client_of_every_fixture_works_in_the_engine() {
    let sandbox = Sandbox::wasm().max_concurrent(2).build().await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/specgen/tests/data");
    let mut seen = 0;
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let prefix = if path.ends_with("references.yaml") {
            Prefix::Auto
        } else {
            Prefix::None
        };
        let options = Options {
            prefix,
            ..Options::default()
        };
        assert!(works(&sandbox, &path, &options).await > 0);
        seen += 1;
    }
    assert!(seen >= 5, "{seen} fixtures");
}

#[tokio::test]
async fn the_clients_of_large_published_documents_work_in_the_engine() {
    #[expect(clippy::disallowed_methods, reason = "a test is told where its documents are")]
    let folder = std::env::var_os("PLIMSOLL_OPENAPI_DOCUMENTS").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.is_dir()).expect(
        "PLIMSOLL_OPENAPI_DOCUMENTS must name the folder of the documents: \
         PLIMSOLL_OPENAPI_DOCUMENTS=$(tools/openapi-documents.sh | tail -n 1)",
    );
    let sandbox = Sandbox::wasm().max_concurrent(2).build().await.unwrap();
    let rows = recorded();
    assert!(rows.len() >= 14, "{} rows with routes", rows.len());
    for Recorded { name, options, routes } in rows {
        let operations = works(&sandbox, &folder.join(&name), &options).await;
        assert_eq!(operations, routes, "{name} {options:?}");
    }
}

/// A row of the page's table that has routes: a document, the flags, and how many operations its client has.
struct Recorded {
    name: String,
    options: Options,
    routes: usize,
}

/// Every such row of `docs/examples/specgen.md`: a client that the page speaks of is a client that was run.
fn recorded() -> Vec<Recorded> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/specgen.md");
    let page = fs_err::read_to_string(page).unwrap();
    let table = page.split("| Document | Flags | Operations | Routes |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let routes = cells[4].parse().ok()?;
        Some(Recorded {
            name: cells[1].to_owned(),
            options: flags(cells[2]),
            routes,
        })
    })
    .collect()
}

fn flags(text: &str) -> Options {
    let mut options = Options::default();
    let mut words = text.split_whitespace();
    while let Some(flag) = words.next() {
        match flag {
            "-skip-unsupported" => options.skip_unsupported = true,
            "-only" => options.only = Some(words.next().unwrap().split(',').map(str::to_owned).collect()),
            "-prefix" => {
                options.prefix = match words.next().unwrap() {
                    "auto" => Prefix::Auto,
                    path => Prefix::Path(path.to_owned()),
                }
            }
            other => panic!("the page's table has a flag that this test does not know: {other}"),
        }
    }
    options
}
