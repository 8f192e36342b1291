//! What changes a digest, and what does not.

use plimsoll_core::*;
use plimsoll_record::*;
use proptest::prelude::*;

fn project(files: Vec<(String, String)>, steps: Vec<String>) -> RunRequest {
    RunRequest::new(Payload::Project(ProjectRun {
        files: files
            .into_iter()
            .map(|(path, content)| ProjectFile { path, content })
            .collect(),
        steps,
        ..ProjectRun::default()
    }))
}

proptest! {
    #[test]
    fn trace_ids_never_change_a_digest(code in ".{1,40}", trace in ".{0,80}") {
        let mut request = RunRequest::javascript(code);
        let digest = request_sha256(&request);
        request.trace_id = trace;
        prop_assert_eq!(request_sha256(&request), digest);
    }

    #[test]
    fn one_space_or_one_millisecond_changes_a_digest(code in ".{1,40}", timeout in -5i32..1000) {
        let request = RunRequest { timeout_ms: timeout, ..RunRequest::javascript(code.clone()) };
        let digest = request_sha256(&request);
        let spaced = RunRequest { timeout_ms: timeout, ..RunRequest::javascript(code + " ") };
        prop_assert_ne!(&request_sha256(&spaced), &digest);
        prop_assert_ne!(request_sha256(&RunRequest { timeout_ms: timeout + 1, ..request }), digest);
    }

    #[test]
    fn content_cannot_move_across_a_boundary(text in "[a-z.]{2,12}", cut in 1usize..11) {
        let cut = cut.min(text.len() - 1);
        let whole = (text[..cut].to_owned(), text[cut..].to_owned());
        let moved = (text[..cut - 1].to_owned(), text[cut - 1..].to_owned());
        let steps = || vec!["true".to_owned()];
        prop_assert_ne!(
            request_sha256(&project(vec![whole.clone()], steps())),
            request_sha256(&project(vec![moved], steps()))
        );
        prop_assert_ne!(
            request_sha256(&project(vec![], vec![whole.0.clone(), whole.1.clone()])),
            request_sha256(&project(vec![], vec![whole.0 + &whole.1]))
        );
    }

    #[test]
    fn order_is_part_of_what_was_asked(a in "[a-z]{1,8}", b in "[A-Z]{1,8}") {
        let files = |first: &str, second: &str| {
            project(vec![(first.into(), "1".into()), (second.into(), "1".into())], vec!["true".into()])
        };
        prop_assert_ne!(request_sha256(&files(&a, &b)), request_sha256(&files(&b, &a)));
        let rule = |first: &str, second: &str| RunRequest {
            software_rule: Some(SoftwareRuleText { mode: "approved".into(), identities: vec![first.into(), second.into()] }),
            ..RunRequest::javascript("1")
        };
        prop_assert_ne!(request_sha256(&rule(&a, &b)), request_sha256(&rule(&b, &a)));
    }

    #[test]
    fn every_change_to_a_live_record_or_answer_is_seen(stdout in proptest::collection::vec(any::<u8>(), 0..64), which in 0usize..11) {
        let request = RunRequest { minimum_isolation: "process".into(), ..RunRequest::javascript("1") };
        let outcome = Outcome {
            result: RunResult::JavaScript(JavaScriptResult { stdout, ..JavaScriptResult::default() }),
            isolation: Isolation::Proven(Tier::Process),
            duration_ms: 3,
            environment: "quickjs-wasm:sha256:ab".into(),
            software_identity: String::new(),
            instance: String::new(),
            diagnostics: Diagnostics::default(),
        };
        let stamp = Stamp { provider: "wasm", policy: "", started_unix_ms: 10, ended_unix_ms: 12 };
        let record = stamp.answered(&request, &SoftwareRule::NONE, &outcome);
        let answer = Answer::new("wasm", outcome, record.clone());
        let verdict = |answer: &Answer, record: &RunRecord| {
            let live = LiveAnswer {
                provider: &answer.sandbox,
                isolation: &answer.isolation,
                environment: &answer.environment,
                software_identity: &answer.software_identity,
                instance: &answer.instance,
                result: answer.result.as_ref(),
            };
            verify_live(&request, &SoftwareRule::NONE, &live, Some(record)).map(|_| ())
        };
        prop_assert_eq!(verdict(&answer, &record), Ok(()));

        let mut forged = record;
        let mut lying = answer;
        match which {
            0 => forged.request_sha256 = "0".repeat(64),
            1 => forged.result_sha256 = "0".repeat(64),
            2 => forged.provider = "docker".into(),
            3 => forged.isolation = "vm".into(),
            4 => forged.environment = "other".into(),
            5 => forged.software_rule_id = "exact:x".into(),
            6 => forged.instance = "k:v".into(),
            7 => lying.isolation = "vm".into(),
            8 => lying.sandbox = "docker".into(),
            9 => lying.result = Some(RunResult::JavaScript(JavaScriptResult { exit_code: 1, ..JavaScriptResult::default() })),
            _ => forged.unanswered = "internal".into(),
        }
        forged.record_sha256 = forged.digest().unwrap();
        prop_assert!(matches!(verdict(&lying, &forged), Err(LiveFault::Mismatch(_))), "change {} went unseen", which);
    }
}

#[test]
fn versions_a_live_answer_may_not_carry() {
    let request = RunRequest::javascript("1");
    let live = LiveAnswer {
        provider: "",
        isolation: "",
        environment: "",
        software_identity: "",
        instance: "",
        result: None,
    };
    let fault = |version| {
        let record = RunRecord {
            version,
            ..RunRecord::default()
        };
        verify_live(&request, &SoftwareRule::NONE, &live, Some(&record)).unwrap_err()
    };
    assert!(fault(5).to_string().contains("upgrade this client"));
    assert!(fault(3).to_string().contains("daemon is too old"));
    assert_eq!(
        verify_live(&request, &SoftwareRule::NONE, &live, None),
        Err(LiveFault::NoRecord)
    );
}

#[test]
fn instance_references_have_one_form() {
    for good in [
        "",
        "k8s-pod-uid:0f5c3b1e-8f4d",
        "a:B._:-9",
        &format!("{}:{}", "a".repeat(32), "x".repeat(127)),
    ] {
        assert!(is_instance(good), "{good:?}");
    }
    for bad in [
        "x",
        ":y",
        "a:",
        "A:b",
        "9:b",
        "a b:c",
        "a:b c",
        "a:é",
        &format!("{}:x", "a".repeat(33)),
        &format!("a:{}", "x".repeat(128)),
    ] {
        assert!(!is_instance(bad), "{bad:?}");
    }
}
