//! Records in every version, the chain of a session's records, and the record of a single run.

use plimsoll_core::*;
use plimsoll_record::*;

use super::*;

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

/// What the stamp makes of a call of the published session that ended as `known` says.
fn stamped(chain: &Chain, request: &RunRequest, known: &RunRecord) -> RunRecord {
    let stamp = Stamp {
        provider: "docker",
        policy: "",
        started_unix_ms: known.started_unix_ms,
        ended_unix_ms: known.ended_unix_ms,
    };
    let stated = SessionEvidence {
        provider: "docker",
        isolation: Isolation::Proven(Tier::Kernel),
        support: SessionSupport {
            environment: PayloadEnvironment {
                identity: known.environment.clone(),
                software_identity: known.software_identity.clone(),
                ..PayloadEnvironment::default()
            },
            ..SessionSupport::default()
        },
        instance: String::new(),
    };
    let result = match request.payload.as_ref().unwrap() {
        Payload::JavaScript(_) => printed(b"1\n"),
        Payload::Project(_) => concatenated(),
        _ => return stamp.unanswered_in(chain, request, &SoftwareRule::NONE, &stated, Code::Internal),
    };
    let outcome = Outcome {
        result,
        isolation: stated.isolation,
        duration_ms: 1,
        environment: known.environment.clone(),
        software_identity: known.software_identity.clone(),
        instance: String::new(),
        diagnostics: Diagnostics::default(),
    };
    stamp.answered_in(chain, request, &SoftwareRule::NONE, &outcome)
}

/// The result of the published session's project.
fn concatenated() -> RunResult {
    RunResult::Project(ProjectResult {
        outcome: ProjectOutcome::COMPLETED,
        steps: vec![StepResult {
            command: "cat a.txt".into(),
            stdout: b"1".to_vec(),
            ..StepResult::default()
        }],
        ..ProjectResult::default()
    })
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
    let third = result_sha256(Some(&concatenated()));
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
    for (index, record) in records.iter().enumerate() {
        assert_eq!(stamped(&chain, &requests[index].0, record), *record);
        chain.follow(record).unwrap();
    }
    assert_eq!((chain.calls(), chain.last_sha256()), (3, digests[2]));
    assert_eq!(verify_chain(&records), Ok(chain));
    assert_eq!(verify_chain(&[]), Err(ChainFault::Empty));
    assert_eq!(verify_chain(&records[..2]).unwrap().calls(), 2);
    let missing = [&records[0], &records[2]];
    let fault = ChainBreak::Sequence { expected: 2, found: 3 };
    assert_eq!(verify_chain(missing), Err(ChainFault::Link { place: 2, fault }));
    let mut changed = records.clone();
    changed[1].unanswered = "unavailable".into();
    let fault = RecordFault::Digest;
    assert_eq!(verify_chain(&changed), Err(ChainFault::Record { place: 2, fault }));
    changed[1].record_sha256 = changed[1].digest().unwrap();
    let fault = ChainBreak::Previous;
    assert_eq!(verify_chain(&changed), Err(ChainFault::Link { place: 3, fault }));

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
