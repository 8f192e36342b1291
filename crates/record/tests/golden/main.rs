//! Digests with known values, of single runs and of a session's chain: each must come out to the byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod digests;
mod records;

use plimsoll_core::*;

const SESSION: &str = "00112233445566778899aabbccddeeff";
const FINGERPRINT: &str = "5947d7c33d783f94b3b4c1a96ebc8991ed28f1b069b71e03376cba8caa98a720";

fn identity(letter: &str) -> String {
    format!("oci-manifest:linux/amd64@sha256:{}", letter.repeat(64))
}

fn rule_r() -> SoftwareRule {
    SoftwareRule::approved([identity("a"), identity("b")]).unwrap()
}

fn file(path: &str, content: &str) -> ProjectFile {
    ProjectFile {
        path: path.into(),
        content: content.into(),
    }
}

fn javascript(code: &str) -> Payload {
    Payload::JavaScript(JavaScriptRun {
        code: code.into(),
        grant_profile: String::new(),
    })
}

fn j(protocol: u32) -> RunRequest {
    RunRequest {
        protocol,
        minimum_isolation: "container".into(),
        trace_id: "t-1".into(),
        timeout_ms: 5000,
        software_rule: None,
        payload: Some(javascript("console.log(1+1)")),
    }
}

fn p(protocol: u32) -> RunRequest {
    RunRequest {
        protocol,
        timeout_ms: 30_000,
        payload: Some(Payload::Project(ProjectRun {
            files: vec![
                file("main.js", "console.log(require('./lib.js'))"),
                file("lib.js", "module.exports = 42"),
            ],
            steps: vec!["node main.js > out.txt".into(), "cat out.txt".into()],
            artifacts: vec!["out.txt".into()],
            grant_profile: String::new(),
        })),
        ..RunRequest::default()
    }
}

fn m(protocol: u32) -> RunRequest {
    RunRequest {
        protocol,
        payload: Some(Payload::Module(ModuleRun {
            model: "VanDerPol".into(),
            rows: vec![vec![1.0, 2.0], vec![0.5, -3.0]],
            end_time: 1.0,
            step: 0.1,
        })),
        ..RunRequest::default()
    }
}

fn c(protocol: u32) -> RunRequest {
    RunRequest {
        protocol,
        minimum_isolation: "container".into(),
        timeout_ms: 30_000,
        payload: Some(Payload::Cell(CellRun {
            language: "python".into(),
            code: "import json\njson.loads(open('in.json').read())['n'] + 1".into(),
            files: vec![file("in.json", "{\"n\": 41}")],
        })),
        ..RunRequest::default()
    }
}

fn with_rule(mut request: RunRequest) -> RunRequest {
    request.software_rule = rule_r().to_text();
    request
}

fn bare(payload: Option<Payload>) -> RunRequest {
    RunRequest {
        protocol: 4,
        payload,
        ..RunRequest::default()
    }
}

fn project_result() -> ProjectResult {
    ProjectResult {
        outcome: ProjectOutcome::COMPLETED,
        steps: vec![
            StepResult {
                command: "node main.js > out.txt".into(),
                ..StepResult::default()
            },
            StepResult {
                command: "cat out.txt".into(),
                stdout: b"42\n".to_vec(),
                ..StepResult::default()
            },
        ],
        artifacts: vec![Artifact {
            path: "out.txt".into(),
            content: b"42\n".to_vec(),
        }],
        ..ProjectResult::default()
    }
}

fn printed(stdout: &[u8]) -> RunResult {
    RunResult::JavaScript(JavaScriptResult {
        stdout: stdout.to_vec(),
        ..JavaScriptResult::default()
    })
}
