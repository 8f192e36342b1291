//! Digests of requests and results, and names that are digests.

use plimsoll_core::*;
use plimsoll_record::*;

use super::*;

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
