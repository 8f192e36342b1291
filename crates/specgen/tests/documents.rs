//! What the generator makes of large documents that real APIs publish, unedited.
//!
//! The documents are not ours and are not in the repository: `tools/openapi-documents.sh` fetches them and prints the
//! folder, which this test reads from `PLIMSOLL_OPENAPI_DOCUMENTS`. The numbers are the table of
//! `docs/examples/specgen.md`; every row of it is run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_specgen::{Streams, run};
use serde_json::Value;

/// The largest document, 73 MB, takes below a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// One row of the table.
struct Row {
    document: String,
    flags: Vec<String>,
    numbers: Numbers,
}

#[derive(Debug, PartialEq, Eq)]
enum Numbers {
    Generated {
        operations: usize,
        routes: usize,
        skipped: usize,
        warnings: usize,
    },
    Refused {
        problems: usize,
    },
}

fn folder() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a test is told where its documents are")]
    let folder = std::env::var_os("PLIMSOLL_OPENAPI_DOCUMENTS");
    let folder = folder.map(PathBuf::from).filter(|folder| folder.is_dir());
    folder.expect(
        "PLIMSOLL_OPENAPI_DOCUMENTS must name the folder of the documents: \
         PLIMSOLL_OPENAPI_DOCUMENTS=$(tools/openapi-documents.sh | tail -n 1)",
    )
}

fn rows() -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/specgen.md");
    let page = fs_err::read_to_string(page).expect("the page");
    let table = page
        .split("| Document | Flags |")
        .nth(1)
        .expect("the table of the documents");
    table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect();
            let number = |at: usize| cells[at].parse().unwrap_or_else(|_| panic!("no number in {line}"));
            Row {
                document: cells[0].to_owned(),
                flags: cells[1].split_whitespace().map(str::to_owned).collect(),
                numbers: match cells[6] {
                    "0" => Numbers::Generated {
                        operations: number(2),
                        routes: number(3),
                        skipped: number(4),
                        warnings: number(5),
                    },
                    _ => Numbers::Refused { problems: number(6) },
                },
            }
        })
        .collect()
}

/// Runs the command on a document; answers its exit code, what it printed and what it said.
fn specgen(document: &Path, flags: &[String]) -> (u8, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let args = flags
        .iter()
        .map(OsString::from)
        .chain(["-emit".into(), "json".into(), document.into()]);
    let streams = Streams {
        stdin: &mut std::io::empty(),
        stdout: &mut stdout,
        stderr: &mut stderr,
    };
    let code = run(args, streams, "specgen");
    (
        code,
        String::from_utf8(stdout).expect("text"),
        String::from_utf8(stderr).expect("text"),
    )
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

fn numbers(row: &Row, code: u8, stdout: &str, stderr: &str) -> Numbers {
    if code != 0 {
        assert_eq!((code, stdout), (1, ""), "{}", row.document);
        let problems: Vec<&str> = stderr
            .lines()
            .filter(|line| !line.starts_with("specgen: skipped "))
            .collect();
        for problem in &problems {
            let names_operation = ["GET /", "PUT /", "POST /", "DELETE /", "PATCH /"]
                .iter()
                .any(|verb| problem.starts_with(&format!("specgen: {verb}")));
            assert!(
                names_operation && problem.contains("-skip-unsupported"),
                "{}: {problem}",
                row.document
            );
        }
        return Numbers::Refused {
            problems: problems.len(),
        };
    }
    let json: Value = serde_json::from_str(stdout).expect("a JSON object");
    let preamble = json["preamble"].as_str().expect("a script");
    let skipped = count(&json["skipped"]);
    let said = |what: &str| {
        let start = format!("specgen: {what}");
        stderr.lines().filter(|line| line.starts_with(&start)).count()
    };
    assert_eq!(said("skipped "), skipped, "{}", row.document);
    assert_eq!(said("warning: "), count(&json["warnings"]), "{}", row.document);
    Numbers::Generated {
        operations: preamble.lines().count() - 5 + skipped,
        routes: count(&json["allow"]),
        skipped,
        warnings: count(&json["warnings"]),
    }
}

#[test]
fn every_recorded_document_gives_the_recorded_numbers() {
    let folder = folder();
    let rows = rows();
    assert!(rows.len() >= 6, "{} rows", rows.len());
    let mut differences = Vec::new();
    for row in &rows {
        let document = folder.join(&row.document);
        let started = Instant::now();
        let (code, stdout, stderr) = specgen(&document, &row.flags);
        assert!(
            started.elapsed() < PATIENCE,
            "{} took {:?}",
            row.document,
            started.elapsed()
        );
        let found = numbers(row, code, &stdout, &stderr);
        if found != row.numbers {
            differences.push(format!(
                "{} {:?}: {found:?}, recorded {:?}",
                row.document, row.flags, row.numbers
            ));
        }
        let (_, again, _) = specgen(&document, &row.flags);
        assert_eq!(stdout, again, "{} is not deterministic", row.document);
    }
    assert!(differences.is_empty(), "{differences:#?}");
    let mut yielding: Vec<&str> = rows
        .iter()
        .filter(|row| matches!(row.numbers, Numbers::Generated { routes: 10.., .. }))
        .map(|row| row.document.as_str())
        .collect();
    yielding.dedup();
    assert!(yielding.len() >= 4, "only {yielding:?} yield routes");
}

#[test]
fn two_forms_of_one_document_give_the_same_routes_and_calls() {
    let folder = folder();
    let flags = ["-skip-unsupported".to_owned()];
    for (one, other) in [
        ("rclone.json", "rclone.yaml"),
        ("shipengine.json", "shipengine.yaml"),
        ("github.json", "github-dereferenced.json"),
    ] {
        let (code, first, _) = specgen(&folder.join(one), &flags);
        let (_, second, _) = specgen(&folder.join(other), &flags);
        assert_eq!(code, 0);
        let [first, second]: [Value; 2] = [first, second].map(|text| serde_json::from_str(&text).unwrap());
        for key in ["allow", "preamble", "skipped", "warnings"] {
            assert_eq!(first[key], second[key], "{one} and {other}: {key}");
        }
    }
}
