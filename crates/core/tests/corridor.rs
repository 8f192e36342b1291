//! The order of the checks, step against step.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_core::*;

fn wasm() -> Evidence {
    Evidence {
        provider: "wasm",
        availability: Availability::Serving,
        isolation: Isolation::Proven(Tier::Process),
        environments: Environments {
            javascript: Some(PayloadEnvironment {
                identity: "quickjs-wasm:sha256:00".into(),
                ..Default::default()
            }),
            ..Environments::default()
        },
        grants: GrantSupport::default(),
        policy: String::new(),
        sessions: None,
        resources: Resources::default(),
    }
}

fn project() -> RunRequest {
    RunRequest::new(Payload::Project(ProjectRun {
        steps: vec!["true".into()],
        ..ProjectRun::default()
    }))
}

fn authorize(request: RunRequest, evidence: &Evidence) -> Result<Authorized<()>, Refusal> {
    Validated::new(request)?.grant(no_profiles)?.authorize(evidence)
}

/// A look-up where there is no profile at all.
fn no_profiles(name: Option<&str>) -> Result<(), Refusal> {
    match name {
        None => Ok(()),
        Some(_) => Err(Refusal::permission("grant_profile is not available to this caller")),
    }
}

fn refused(request: RunRequest, evidence: &Evidence) -> (Code, Reason) {
    let refusal = authorize(request, evidence).unwrap_err();
    (refusal.code(), refusal.reason())
}

fn floor(mut request: RunRequest, floor: &str) -> RunRequest {
    request.minimum_isolation = floor.into();
    request
}

fn ruled(mut request: RunRequest) -> RunRequest {
    request.software_rule = SoftwareRule::exact("x").unwrap().to_text();
    request
}

#[test]
fn protocol_is_looked_at_before_anything_else() {
    for (protocol, code) in [
        (0, Code::InvalidArgument),
        (3, Code::Unimplemented),
        (5, Code::Unimplemented),
        (999, Code::Unimplemented),
    ] {
        let request = RunRequest {
            protocol,
            minimum_isolation: "fortress".into(),
            ..RunRequest::default()
        };
        assert_eq!(
            refused(request, &wasm()),
            (code, Reason::Protocol),
            "protocol {protocol}"
        );
    }
}

#[test]
fn floor_syntax_then_rule_syntax_then_payload() {
    let bad_rule = Some(SoftwareRuleText {
        mode: "pinned".into(),
        identities: vec![],
    });
    let mut request = RunRequest {
        protocol: 4,
        minimum_isolation: "none".into(),
        software_rule: bad_rule,
        ..RunRequest::default()
    };
    let message = |request: &RunRequest| Validated::new(request.clone()).unwrap_err().message().to_owned();
    assert!(message(&request).starts_with("minimum_isolation"));
    request.minimum_isolation.clear();
    assert!(message(&request).starts_with("software_rule"));
    request.software_rule = None;
    assert!(message(&request).contains("no payload"));
    for floor_text in ["fortress", "none", "Kernel"] {
        assert_eq!(
            refused(floor(project(), floor_text), &wasm()),
            (Code::InvalidArgument, Reason::Request)
        );
    }
}

#[test]
fn floor_then_rule_then_unsupported_on_every_kind() {
    let module = || {
        RunRequest::new(Payload::Module(ModuleRun {
            model: "m".into(),
            rows: vec![vec![1.0]],
            end_time: 1.0,
            step: 0.5,
        }))
    };
    for request in [project, module] {
        assert_eq!(
            refused(floor(ruled(request()), "vm"), &wasm()),
            (Code::FailedPrecondition, Reason::Isolation)
        );
        assert_eq!(
            refused(ruled(request()), &wasm()),
            (Code::FailedPrecondition, Reason::Environment)
        );
        assert_eq!(refused(request(), &wasm()), (Code::Unimplemented, Reason::Unsupported));
    }
    let snippet = || RunRequest::javascript("1");
    assert_eq!(refused(floor(snippet(), "kernel"), &wasm()).1, Reason::Isolation);
    assert_eq!(refused(ruled(snippet()), &wasm()).1, Reason::Environment);
    assert!(authorize(floor(snippet(), "process"), &wasm()).is_ok());
}

#[test]
fn a_disabled_daemon_refuses_in_the_same_order() {
    let disabled = Evidence::disabled();
    for request in [project(), RunRequest::javascript("1")] {
        assert_eq!(
            refused(floor(request.clone(), "process"), &disabled).1,
            Reason::Isolation
        );
        assert_eq!(refused(ruled(request.clone()), &disabled).1, Reason::Environment);
        assert_eq!(
            refused(request, &disabled),
            (Code::FailedPrecondition, Reason::Unsupported)
        );
    }
}

#[test]
fn an_unknown_tier_meets_no_floor_and_still_runs_without_one() {
    let fallen = Evidence {
        isolation: Isolation::Unknown,
        ..wasm()
    };
    assert_eq!(
        refused(floor(RunRequest::javascript("1"), "process"), &fallen).1,
        Reason::Isolation
    );
    assert!(authorize(RunRequest::javascript("1"), &fallen).is_ok());
}

#[test]
fn a_named_profile_is_refused_before_the_wall_is_compared() {
    let named = |name: String| {
        RunRequest::new(Payload::JavaScript(JavaScriptRun {
            code: "1".into(),
            grant_profile: name,
        }))
    };
    assert_eq!(
        refused(floor(named("crm".into()), "vm"), &wasm()),
        (Code::PermissionDenied, Reason::Permission)
    );
    assert_eq!(
        refused(named("x".repeat(129)), &wasm()),
        (Code::InvalidArgument, Reason::Request)
    );
    assert_eq!(refused(named("x".repeat(128)), &wasm()).1, Reason::Permission);
    let granted = Validated::new(named("crm".into()))
        .unwrap()
        .grant(|name| Ok(name.map(str::to_owned)))
        .unwrap();
    assert_eq!(granted.authorize(&wasm()).unwrap_err().reason(), Reason::Unsupported);
}

#[test]
fn what_evidence_said_at_admission_is_compared_again_at_launch() {
    let call = authorize(floor(RunRequest::javascript("1"), "process"), &wasm())
        .unwrap()
        .admit(Permit::new(()));
    assert_eq!(call.recheck(&wasm()), Ok(()));
    let fallen = Evidence {
        isolation: Isolation::Unknown,
        ..wasm()
    };
    assert_eq!(call.recheck(&fallen).unwrap_err().reason(), Reason::Isolation);
}

#[test]
fn timeouts_are_clamped_and_never_mean_forever() {
    let seconds = Duration::from_secs;
    let clamped = |timeout_ms: i32, ceiling: Duration| {
        let request = RunRequest {
            timeout_ms,
            ..RunRequest::javascript("1")
        };
        authorize(request, &wasm())
            .unwrap()
            .admit(Permit::new(()))
            .timeout(seconds(5), ceiling)
    };
    for (asked, expected) in [
        (0, seconds(5)),
        (-1, seconds(5)),
        (i32::MIN, seconds(5)),
        (1, Duration::from_millis(1)),
        (29_999, Duration::from_millis(29_999)),
        (30_001, seconds(30)),
        (i32::MAX, seconds(30)),
    ] {
        assert_eq!(clamped(asked, seconds(30)), expected, "{asked} ms");
    }
    assert_eq!(clamped(86_400_000, seconds(1000)), seconds(300));
}

#[test]
fn capacity_comes_back_when_the_last_holder_lets_go() {
    struct Slot(Arc<AtomicBool>);
    impl Drop for Slot {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let freed = Arc::new(AtomicBool::new(false));
    let call = authorize(RunRequest::javascript("1"), &wasm())
        .unwrap()
        .admit(Permit::new(Slot(Arc::clone(&freed))));
    let hold = call.hold();
    drop(call);
    assert!(!freed.load(Ordering::SeqCst), "the sandbox still stands");
    drop(hold);
    assert!(freed.load(Ordering::SeqCst));
}
