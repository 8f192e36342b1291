//! `Intl` in the guest answers as node 22 does: 4,620 recorded calls.

#![expect(clippy::disallowed_methods, reason = "a test reads its recorded cases")]

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};
use serde_json::Value;

/// Evaluates the cases in `CASES` and prints one answer a line.
const RUN: &str = "
for (const [c, l, o, m, a] of CASES) {
  const args = a.map(x => { const v = x.slice(2); return x[0] === 'n' ? Number(v) : x[0] === 'b' ? BigInt(v) : x[0] === 'd' ? new Date(Number(v)) : x[0] === 'j' ? JSON.parse(v) : v; });
  let answer;
  try { const r = new Intl[c](l, o)[m](...args); answer = typeof r === 'string' ? r : JSON.stringify(r); } catch (e) { answer = `${e.name}: ${e.message}`; }
  console.log(JSON.stringify(answer));
}";

fn lines(name: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/intl")
        .join(name);
    let text = std::fs::read_to_string(path).expect("the recorded cases are part of the repository");
    text.lines()
        .map(|line| {
            let mut case: Vec<Value> = serde_json::from_str(line).expect("a case is a JSON array");
            let answer = case
                .pop()
                .and_then(|v| v.as_str().map(str::to_owned))
                .expect("a case ends with its answer");
            (Value::Array(case).to_string(), answer)
        })
        .collect()
}

#[tokio::test]
async fn intl_answers_are_those_of_node_or_the_written_differences() {
    let cases = lines("cases.jsonl");
    let differs: HashMap<String, String> = lines("differs.jsonl").into_iter().collect();
    assert!(
        cases.len() > 4600 && differs.len() <= 20,
        "{} cases, {} differences",
        cases.len(),
        differs.len()
    );
    let engine = Engine::new(EngineConfig {
        output_cap: 4 << 20,
        ..EngineConfig::default()
    })
    .expect("the engine starts");
    let mut wrong = Vec::new();
    for chunk in cases.chunks(400) {
        let list: Vec<&str> = chunk.iter().map(|(case, _)| case.as_str()).collect();
        let code = format!("const CASES = [{}];{RUN}", list.join(",\n"));
        let report = engine
            .run(RunSpec::new(&code, Duration::from_secs(30)))
            .await
            .expect("the chunk runs");
        let out = String::from_utf8(report.stdout.bytes.to_vec()).expect("answers are UTF-8");
        let answers: Vec<String> = out
            .lines()
            .map(|l| serde_json::from_str(l).expect("an answer is a JSON string"))
            .collect();
        assert_eq!(
            answers.len(),
            chunk.len(),
            "one answer a case; stderr: {}",
            String::from_utf8_lossy(&report.stderr.bytes)
        );
        for ((case, node), answer) in chunk.iter().zip(&answers) {
            let expected = differs.get(case).unwrap_or(node);
            if answer != expected {
                wrong.push(format!("{case}\n  expected {expected:?}\n  answered {answer:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} answers differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

async fn stdout_of(code: &str) -> String {
    let engine = Engine::new(EngineConfig::default()).expect("the engine starts");
    let report = engine
        .run(RunSpec::new(code, Duration::from_secs(10)))
        .await
        .expect("the program runs");
    String::from_utf8(report.stdout.bytes.to_vec()).expect("output is UTF-8")
}

#[tokio::test]
async fn a_date_string_with_a_day_above_31_is_read_as_node_reads_it() {
    let code = "for (const t of ['01/32/2024', 'January 32, 2024', '2024/01/32', '1-32-2024', '2024-1-32', '01/32', '1/2024', '1/99/24', \
                '01/31/2024', '2024/01/31', '32/01', 'January 32', 'January 2024', '2024 January 31', 'Jan 5 99', '99/1/2', '2/30/2024']) {
        const d = new Date(t);
        console.log(isNaN(d) ? 'Invalid Date' : d.toISOString().slice(0, 10));
    }";
    let invalid = "Invalid Date\n".repeat(8);
    let valid =
        "2024-01-31\n2024-01-31\n2032-01-01\n2032-01-01\n2024-01-01\n2024-01-31\n1999-01-05\n1999-01-02\n2024-03-01\n";
    assert_eq!(stdout_of(code).await, invalid + valid);
}

#[tokio::test]
async fn a_typed_array_in_a_table_cell_shows_its_first_items() {
    let code = "console.table([{ a: new Float64Array(6), b: { x: 1, y: 2, z: 3 } }])";
    let expected = "\
┌─────────┬───────────────────────────────────────────────┬──────────┐
│ (index) │ a                                             │ b        │
├─────────┼───────────────────────────────────────────────┼──────────┤
│ 0       │ Float64Array(6) [ 0, 0, 0, ... 3 more items ] │ [Object] │
└─────────┴───────────────────────────────────────────────┴──────────┘
";
    assert_eq!(stdout_of(code).await, expected);
}
