//! Every golden vector of spec 10 ("Golden digests", "Session chain") and of spec 70 §17.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use plimsoll_core::*;
use plimsoll_record::*;

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

#[test]
fn request_digests() {
    let module_m = |first: f64| {
        bare(Some(Payload::Module(ModuleRun {
            model: "m".into(),
            rows: vec![vec![first, 2.0]],
            end_time: 1.0,
            step: 0.1,
        })))
    };
    let snippet_one = || bare(Some(javascript("1")));
    let granted = bare(Some(Payload::JavaScript(JavaScriptRun {
        code: "1".into(),
        grant_profile: "p".into(),
    })));
    let cell_17 = RunRequest {
        minimum_isolation: "kernel".into(),
        timeout_ms: 5000,
        ..bare(Some(Payload::Cell(CellRun {
            language: "python".into(),
            code: "len(rows)".into(),
            files: vec![file("a.csv", "x\n1\n")],
        })))
    };
    let cases = [
        (j(1), "585a1b46c55ebacc1dfdd4336e302328c32ed3e2e7e8a8b460d252d0454be8fc"),
        (p(1), "894bec2baf1b52612c2f060ba2aa9080273294e737bae5f3a65ff661b50481d0"),
        (m(1), "3679bdba8fdaa503650e79c970728f869a4cf4882446fbc9742a402195d5b6c1"),
        (
            with_rule(j(2)),
            "0b662d4687a062429ab0be85c2445e6c0c9d402922ca223b74e3a1095da7d320",
        ),
        (
            with_rule(p(2)),
            "abf8235a62b43c4384dc9e7a0f704f1f5f0936ac01a98d7344e50195455d97e1",
        ),
        (
            with_rule(m(2)),
            "f17657df096a7f2fe66fc012a8262bfe03a876e114264d95ce1ac79181c119a5",
        ),
        (c(2), "a2690050ce63bba09b3646effa24c89d8df7dbbc9efd5c0368d00996c76ba89f"),
        (j(4), "3ac521c00d014d11e7dfaff3ada8a8b564a0ac93eadc72555a992faac7b8112f"),
        (
            with_rule(j(4)),
            "d60ffa1a2c600acaa6cfcaed620d87d8a6e8657e2778027d4df6725878e111c3",
        ),
        (p(4), "4539acba5789dc54fdcdd06e1c49788067f933fcab9bd7b29e9141676ca4bb14"),
        (
            with_rule(p(4)),
            "db7f9020738d2072d58b8691aed987fde11644bf130828fda52d79f225198b22",
        ),
        (m(4), "8f915f4b63f37bd348404c8c0db88f91cf174399c7f49ccdc2b917911ce69b34"),
        (
            with_rule(m(4)),
            "757ec60b561d9093ff2231431c8fe14213aa647d481df955656fe3fa0aa19b00",
        ),
        (c(4), "91b78eeef54543c1a57dbbbb57d2c055c7c418a1f5353a1af76893a52f76c281"),
        (
            snippet_one(),
            "01ec32c0cbec9f47ad49b3de040f584c38e6ed21d15d31c03fbb35545e497d19",
        ),
        (
            RunRequest {
                timeout_ms: -5,
                ..snippet_one()
            },
            "b9435c7d6be6e2e36120d911c125a9eb3ac0678a0ecf74d1ea4f5926ffadbc51",
        ),
        (
            granted,
            "96d6c20f84d3a6184e62b283c56d9b490e2871fbed38336444d1b18aa2296001",
        ),
        (
            bare(None),
            "9ca84e1b8e3e7b6d857c1fe4c2b236e39a9ed2465d374bf9f1119dff7bc23d69",
        ),
        (
            bare(Some(javascript(""))),
            "cafb2fa47b0390155553bf958e3de08050b48441a6b98e1ec993155d99056c98",
        ),
        (
            bare(Some(Payload::Project(ProjectRun::default()))),
            "c68098142130e141f5284c7acbd3ae938e75267a60f1e152f6bd8e851552e4e3",
        ),
        (
            bare(Some(Payload::Module(ModuleRun::default()))),
            "7bfa9077c08a512d0990349f9462d817bc0d87ae51beb5fc98b4f999fef168e9",
        ),
        (
            bare(Some(Payload::Cell(CellRun::default()))),
            "c0b3bde05981a3b851521580fc6a7faf86dd7bfe5bb4900c2d3d8591538cc3d0",
        ),
        (
            module_m(-0.0),
            "58ac1bc695cd7200220d46ab2b83074407d21ef048ee99a679cddb370cc5af8f",
        ),
        (
            module_m(0.0),
            "92d0b0973b73b68c71d99fbd01a8b8b3025c4fc6164b0053076d5945abf7b6cc",
        ),
        (
            bare(Some(javascript("console.log(6*7)"))),
            "f65090a97b59925602246c3a7ab3e5d05dfde6cae06c13365cbd0e6be4986dc3",
        ),
        (
            cell_17,
            "91378904eba9b23f5555bebcf86a3a6ba86430e2346e85fed8f1fd3942d62666",
        ),
        (
            RunRequest {
                minimum_isolation: "container".into(),
                timeout_ms: 5000,
                ..bare(Some(javascript("console.log(6*7)")))
            },
            "ee7252e250bfa5566d8b10d4952f61b6493e59672975bf21ca92e46d9b3fbd22",
        ),
    ];
    for (index, (request, expected)) in cases.iter().enumerate() {
        assert_eq!(request_sha256(request), *expected, "case {index}: {request:?}");
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

#[test]
fn result_digests() {
    let cases = [
        (
            Some(RunResult::JavaScript(JavaScriptResult {
                stdout: b"2\n".to_vec(),
                stderr: vec![0xff, 0x78],
                ..JavaScriptResult::default()
            })),
            "3a57590f560a5de29d491595bfb264ff072e06d4d0fcccc5ab2d4b3de410d37d",
        ),
        (
            Some(RunResult::Project(project_result())),
            "bfb9756e0d38ac39c7ffd523278e5c32b63c5db76ec5162b7d1ffbe363d0ad6f",
        ),
        (
            Some(RunResult::Module(ModuleResult {
                outcome: ProjectOutcome::COMPLETED,
                width: 1,
                stdout: b"rows=2\n".to_vec(),
                runs: vec![
                    ModuleRowResult {
                        status: 2,
                        outputs: vec![1.0, 1.5],
                    },
                    ModuleRowResult {
                        status: -3,
                        outputs: vec![],
                    },
                ],
                ..ModuleResult::default()
            })),
            "7bf330fc9945ab802a68a0da5a53ec0a40344c5212106e159ce77479e687c2ec",
        ),
        (
            Some(RunResult::Cell(CellResult {
                stdout: b"42\n".to_vec(),
                interpreter_started: true,
                ..CellResult::default()
            })),
            "0ac5e3bdf4e3bc7f4bd2b5b11b44a57c2ac22bf5869825c6d8dc6f56909d1b61",
        ),
        (
            Some(RunResult::JavaScript(JavaScriptResult::default())),
            "b8371b827cc237d409624d942b6a157a7fa3f7e2d440488161a5cdfff3752c1a",
        ),
        (
            Some(RunResult::Project(ProjectResult::default())),
            "3866773fe4ba71dfa47ca6d118b5aa6e76875ed7ddc5f182501aa98d2ff0ec89",
        ),
        (
            Some(RunResult::Module(ModuleResult::default())),
            "db5ca4164c7e17316ae4aa5810255a462fc71fc775b0164758c4dd955dc3abef",
        ),
        (
            Some(RunResult::Cell(CellResult::default())),
            "b02b3abc73971bc35acb539d9ccdb2bce3fe392e0d21c199d1bf88b3ef3e5136",
        ),
        (None, "cdcc8fe156dfd51739f77167fb5926c4057c6fd396bee2ed0479d0eb3399e053"),
        (
            Some(RunResult::JavaScript(JavaScriptResult {
                exit_code: 124,
                timed_out: true,
                stdout_truncated: true,
                ..JavaScriptResult::default()
            })),
            "f8f7656e81f7440c0c08a19ef791bae75d63070e6d577c802b88799f615d140b",
        ),
        (
            Some(RunResult::Module(ModuleResult {
                outcome: ProjectOutcome::COMPLETED,
                width: 4,
                runs: vec![ModuleRowResult {
                    status: 1,
                    outputs: vec![-f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0],
                }],
                ..ModuleResult::default()
            })),
            "a5b105b90358467a783601fc7d241083859cd96aea4443043a012a46c0078839",
        ),
        (
            Some(RunResult::Project(ProjectResult {
                outcome: ProjectOutcome::RUNNER_FAILED,
                outcome_detail: "the runner stopped".into(),
                ..ProjectResult::default()
            })),
            "76f7b4ea07902fa191e242ca401fa8e869b5e9e771f98b58d80ba97fbc6d0ddf",
        ),
        (
            Some(RunResult::Project(ProjectResult {
                outcome: ProjectOutcome::COMPLETED,
                artifacts_truncated: true,
                steps: vec![StepResult {
                    command: "false".into(),
                    exit_code: -1,
                    timed_out: true,
                    stderr_truncated: true,
                    ..StepResult::default()
                }],
                ..ProjectResult::default()
            })),
            "50dcb065521a756063c92a67dd148e45c888ffca03e85543f3d2c22cedb76565",
        ),
        (
            Some(printed(b"42\n")),
            "9a471e25396d4e0a2ef3124f138007aadce1a73d746dd4b99c38c50c0df2a7a5",
        ),
    ];
    for (index, (result, expected)) in cases.iter().enumerate() {
        assert_eq!(result_sha256(result.as_ref()), *expected, "case {index}: {result:?}");
    }
}

fn base(version: u32) -> RunRecord {
    RunRecord {
        version,
        request_sha256: request_sha256(&p(1)),
        result_sha256: result_sha256(Some(&RunResult::Project(project_result()))),
        provider: "openshell".into(),
        isolation: "container".into(),
        environment: "openshell-image:sha256:ab".into(),
        policy: "openshell-policy:sha256:cd".into(),
        started_unix_ms: 1_790_000_000_000,
        ended_unix_ms: 1_790_000_004_210,
        session: Fingerprint::of(SESSION).as_str().into(),
        sequence: 2,
        previous_sha256: format!("{}1", "0".repeat(63)),
        ..RunRecord::default()
    }
}

fn unanswered(version: u32) -> RunRecord {
    RunRecord {
        result_sha256: String::new(),
        unanswered: "unavailable".into(),
        ..base(version)
    }
}

#[test]
fn record_digests_in_every_version() {
    let full = RunRecord {
        software_identity: identity("a"),
        software_rule_id: rule_id(&rule_r()),
        instance: "k8s-pod-uid:0f5c3b1e-8f4d-4b0a-9c1e-2a7d6e5f4c3b".into(),
        ..base(4)
    };
    let single = RunRecord {
        version: 4,
        request_sha256: "ee7252e250bfa5566d8b10d4952f61b6493e59672975bf21ca92e46d9b3fbd22".into(),
        result_sha256: "9a471e25396d4e0a2ef3124f138007aadce1a73d746dd4b99c38c50c0df2a7a5".into(),
        provider: "docker".into(),
        isolation: "kernel".into(),
        environment: format!("docker-image:sha256:{}", "1".repeat(64)),
        software_identity: identity("a"),
        started_unix_ms: 1_767_225_600_000,
        ended_unix_ms: 1_767_225_600_012,
        ..RunRecord::default()
    };
    let in_session = RunRecord {
        session: FINGERPRINT.into(),
        sequence: 1,
        ..single.clone()
    };
    let cases = [
        (
            base(1),
            "8ae67c9bb05dfaca639335a7224ec4152a1353407a94f6ed35d3b1f5d4853784",
        ),
        (
            base(2),
            "a5107eb6b1f726e1b2d7183419502309bfa34d932a65f1494150228ae8349156",
        ),
        (
            base(3),
            "53112d8f2165989b5fe20438fbbb7f678c1a2c112c3cd93e1c4c0c8f6257943b",
        ),
        (
            base(4),
            "55c587d963f766501be34cbabc9b001daaac90cf79c60eb65295b6178bacc6be",
        ),
        (
            unanswered(3),
            "2ca45c37f90ea7fdf87e6d33b1526714963cb7555bfb4fbb918c8ecf0834d49e",
        ),
        (
            unanswered(4),
            "b91ab8a2f9f951aeb1f80bcf03b803adfeda7a3a11d55dff3cdf0cbd0288ff23",
        ),
        (full, "052346e9a8f02fb726f695373779d59f9db1b965b38e71e82fc6e4a2a040b984"),
        (
            single,
            "768a9dc6b72f437aa89f9ccca9a800d2c51107cdbba78bf7bad6cbcff9fb7adc",
        ),
        (
            in_session,
            "f97f51d9bc52a6e379fde214e35b76b493c9776d5c34a03a6dfba382cbad49e1",
        ),
    ];
    for (index, (mut record, expected)) in cases.into_iter().enumerate() {
        assert_eq!(record.digest().unwrap(), expected, "case {index}: {record:?}");
        record.record_sha256 = expected.to_owned();
        record.verify().unwrap();
        record.ended_unix_ms += 1;
        assert_eq!(record.verify(), Err(RecordFault::Digest), "case {index}");
    }
}

#[test]
fn a_stored_record_states_nothing_its_version_does_not_cover() {
    let sealed = |mut record: RunRecord| {
        record.record_sha256 = record.digest().unwrap_or_default();
        record.verify()
    };
    let software = |version| RunRecord {
        software_identity: "x".into(),
        ..base(version)
    };
    let rule = |version| RunRecord {
        software_rule_id: "exact:x".into(),
        ..base(version)
    };
    let instance = |version| RunRecord {
        instance: "k:x".into(),
        ..base(version)
    };
    for (since, fill) in [
        (2, &software as &dyn Fn(u32) -> RunRecord),
        (2, &rule),
        (3, &unanswered),
        (4, &instance),
    ] {
        for version in 1..=4 {
            let verdict = sealed(fill(version));
            if version < since {
                assert!(
                    matches!(verdict, Err(RecordFault::Uncovered { .. })),
                    "{version} {verdict:?}"
                );
            } else {
                assert_eq!(verdict, Ok(()), "version {version}");
            }
        }
    }
    for version in [0, 5, 99] {
        assert_eq!(sealed(base(version)), Err(RecordFault::Version(version)));
    }
}

#[test]
fn names_that_are_digests() {
    assert_eq!(Fingerprint::of(SESSION).as_str(), FINGERPRINT);
    let id = "approved:sha256:def36ca56c26169c32c1690b9f8df85526c919015dc46db52662b58d98ad7a10";
    assert_eq!(rule_id(&rule_r()), id);
    assert_eq!(
        rule_id(&SoftwareRule::approved([identity("b"), identity("a")]).unwrap()),
        id
    );
    let exact = format!("exact:{}", identity("a"));
    assert_eq!(rule_id(&SoftwareRule::approved([identity("a")]).unwrap()), exact);
    assert_eq!(rule_id(&SoftwareRule::exact(identity("a")).unwrap()), exact);
    assert_eq!(rule_id(&SoftwareRule::NONE), "");
}

#[test]
fn the_published_session_chain_follows_and_refuses_every_change() {
    let common = |sequence: u64, started: i64, ended: i64, previous: &str| RunRecord {
        version: 4,
        provider: "docker".into(),
        isolation: "kernel".into(),
        environment: format!("docker-image:sha256:{}", "c".repeat(64)),
        software_identity: identity("a"),
        started_unix_ms: started,
        ended_unix_ms: ended,
        session: FINGERPRINT.into(),
        sequence,
        previous_sha256: previous.into(),
        ..RunRecord::default()
    };
    let ask = |payload| RunRequest {
        minimum_isolation: "kernel".into(),
        timeout_ms: 5000,
        ..bare(Some(payload))
    };
    let requests = [
        (
            ask(javascript("console.log(1)")),
            "6d6e14650b24e55a06038622e9e52e5b0a2107711e646708f8faa27a80843c89",
        ),
        (
            ask(Payload::Cell(CellRun {
                language: "python".into(),
                code: "x = 1".into(),
                files: vec![],
            })),
            "87e22a50d9e2b60a5c0a1f80ad7bb3d1d4bcd29e25ecc84d735c201221db065f",
        ),
        (
            ask(Payload::Project(ProjectRun {
                files: vec![file("a.txt", "1")],
                steps: vec!["cat a.txt".into()],
                ..ProjectRun::default()
            })),
            "310084145592f431a91aa80e1e60159a934b569856dca6b9624f942e3c9ca149",
        ),
    ];
    for (request, expected) in &requests {
        assert_eq!(request_sha256(request), *expected);
    }
    let first = result_sha256(Some(&printed(b"1\n")));
    assert_eq!(
        first,
        "5ccf500c9500979a77523eb971b2368ac2f457a8732f53155ebf1e8b79a6e9d0"
    );
    let third = result_sha256(Some(&RunResult::Project(ProjectResult {
        outcome: ProjectOutcome::COMPLETED,
        steps: vec![StepResult {
            command: "cat a.txt".into(),
            stdout: b"1".to_vec(),
            ..StepResult::default()
        }],
        ..ProjectResult::default()
    })));
    assert_eq!(
        third,
        "ccc86d85919ecc984f9869b721d134d3c2e18bd515cbf30607af6fa3ef3175cb"
    );

    let digests = [
        "d7abeb1d3259787c70624e3e0488f835b7fc2b3d1624cb65d2937cfe1b01b786",
        "2114e92ec9fd55c4ec580578de7396ea32b7e8136a226687b0c6babf5743f0b6",
        "9398665b52c15186dd6f3d43b742d9972cfb52c5a748b1db23c1f4f45561a38a",
    ];
    let mut records = [
        RunRecord {
            request_sha256: requests[0].1.into(),
            result_sha256: first,
            ..common(1, 1_790_000_000_000, 1_790_000_000_095, "")
        },
        RunRecord {
            request_sha256: requests[1].1.into(),
            unanswered: "internal".into(),
            ..common(2, 1_790_000_001_000, 1_790_000_001_020, digests[0])
        },
        RunRecord {
            request_sha256: requests[2].1.into(),
            result_sha256: third,
            ..common(3, 1_790_000_002_000, 1_790_000_002_007, digests[1])
        },
    ];
    for (record, expected) in records.iter_mut().zip(digests) {
        assert_eq!(record.digest().unwrap(), expected);
        record.record_sha256 = expected.to_owned();
    }
    let start = || Chain::new(Fingerprint::of(SESSION));
    let mut chain = start();
    for record in &records {
        chain.follow(record).unwrap();
    }
    assert_eq!((chain.calls(), chain.last_sha256()), (3, digests[2]));

    let mut dropped = start();
    dropped.follow(&records[0]).unwrap();
    assert_eq!(
        dropped.follow(&records[2]),
        Err(ChainBreak::Sequence { expected: 2, found: 3 })
    );
    assert_eq!(
        dropped.follow(&records[0]),
        Err(ChainBreak::Sequence { expected: 2, found: 1 })
    );
    let other = RunRecord {
        previous_sha256: digests[2].into(),
        ..records[1].clone()
    };
    assert_eq!(dropped.follow(&other), Err(ChainBreak::Previous));
    let foreign = RunRecord {
        session: "0".repeat(64),
        ..records[1].clone()
    };
    assert_eq!(dropped.follow(&foreign), Err(ChainBreak::Session));
    dropped.follow(&records[1]).unwrap();
}

#[test]
fn the_single_run_the_official_client_accepts() {
    let request = RunRequest {
        minimum_isolation: "process".into(),
        trace_id: "py-1".into(),
        timeout_ms: 60_000,
        ..bare(Some(javascript("console.log(6*7)")))
    };
    let outcome = Outcome {
        result: printed(b"42\n"),
        isolation: Isolation::Proven(Tier::Process),
        duration_ms: 1,
        environment: format!("quickjs-wasm:sha256:{}", "d".repeat(64)),
        software_identity: String::new(),
        instance: String::new(),
        diagnostics: Diagnostics::default(),
    };
    let stamp = Stamp {
        provider: "wasm",
        policy: "",
        started_unix_ms: 1_790_000_000_000,
        ended_unix_ms: 1_790_000_000_304,
    };
    let record = stamp.answered(&request, &SoftwareRule::NONE, &outcome);
    assert_eq!(
        record.request_sha256,
        "ce2bd0a25fdd26bffbd708f96305e74cccfe8ab928b1dc72629a7fe3ecd75f53"
    );
    assert_eq!(
        record.record_sha256,
        "6f77c20bf9d68ac32232751f9b08a1fbd351fd267c4a617e70a23bad14573f6f"
    );
}
