//! Snippets and projects in sessions, grants on them, and the bound on what a session writes.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use plimsoll_core::*;
use plimsoll_grants::Profiles;
use plimsoll_record::{Chain, Fingerprint, SessionAnswer};
use plimsoll_service::handler::{Handler, SessionError};

use crate::support::*;

/// Profiles of alice's on an address where nobody listens: a call that is let through is answered 502.
fn profiles() -> Profiles {
    let profile = |sessions: bool| {
        serde_json::json!({
            "base_url": "http://127.0.0.1:1",
            "allow": ["GET /rows"],
            "route_max_calls": {"GET /rows": 1},
            "allowed_callers": ["alice"],
            "allow_in_sessions": sessions,
            "token": {"env": "API_TOKEN"},
        })
    };
    let text = serde_json::json!({"profiles": {"here": profile(true), "elsewhere": profile(false)}}).to_string();
    let secret = |_: &str| Some("api-credential-5f1d2c3b4a".to_owned());
    Profiles::read(text.as_bytes(), Path::new("/"), &secret).unwrap()
}

fn snippet(code: &str, profile: &str) -> Payload {
    Payload::JavaScript(JavaScriptRun {
        code: code.into(),
        grant_profile: profile.into(),
    })
}

fn project(step: &str, profile: &str) -> Payload {
    Payload::Project(ProjectRun {
        files: vec![ProjectFile {
            path: ".plimsoll/a.txt".into(),
            content: "12345".into(),
        }],
        steps: vec![step.into()],
        grant_profile: profile.into(),
        ..ProjectRun::default()
    })
}

impl House {
    async fn call(&self, who: &str, id: &SessionId, payload: Payload) -> Result<SessionAnswer, SessionError> {
        let mut request = cell(id, "");
        request.run.payload = Some(payload);
        self.corridor.session_run(context(who), request).await
    }
}

/// What the call's code wrote.
fn said(answer: &SessionAnswer) -> String {
    let bytes = match answer.run.result.as_ref().unwrap() {
        RunResult::Project(result) => &result.steps[0].stdout,
        RunResult::JavaScript(result) => &result.stdout,
        RunResult::Cell(result) => &result.stdout,
        RunResult::Module(_) => panic!("a module in a session"),
    };
    String::from_utf8(bytes.clone()).unwrap()
}

#[tokio::test]
async fn snippets_projects_and_cells_of_a_session_are_one_chain_and_audited_as_what_they_are() {
    let house = House::of_containers(&[], Profiles::default());
    let opened = house.open("alice").await.unwrap();
    let id = &opened.session_id;
    let mut chain = Chain::new(Fingerprint::of(id.reveal()));
    let answers = [
        house.call("alice", id, snippet("a", "")).await.unwrap(),
        house.call("alice", id, project("make", "")).await.unwrap(),
        house.cell("alice", id, "b").await.unwrap(),
    ];
    for answer in &answers {
        let record = answer.run.record.as_ref().unwrap();
        chain.follow(record).unwrap();
        assert_eq!(
            (record.environment.as_str(), record.software_identity.as_str()),
            ("docker-image:sha256:cc", SOFTWARE)
        );
    }
    assert_eq!(answers.each_ref().map(said), ["a", "make", "b"]);
    let (code, projects) = (house.told("code run"), house.told("project run"));
    let audited = |line: &serde_json::Value| (line["op"].clone(), line["session_call"].clone());
    assert_eq!(audited(&code[0]), ("javascript".into(), 1.into()));
    assert_eq!(audited(&projects[0]), ("project".into(), 2.into()));
    assert_eq!(audited(&code[1]), ("cell".into(), 3.into()));
    assert_eq!(
        (
            &projects[0]["files"],
            &projects[0]["total_bytes"],
            &projects[0]["steps_ran"]
        ),
        (&1.into(), &5.into(), &1.into())
    );
    assert_eq!(projects[0]["session"], opened.session);
    assert_eq!(house.script.sweeps.load(SeqCst), 3);
}

#[tokio::test]
async fn a_project_that_breaks_is_in_the_chain_and_audited_as_a_project() {
    let house = House::of_containers(&[], Profiles::default());
    let id = house.open("alice").await.unwrap().session_id;
    let error = house.call("alice", &id, project("break", "")).await.unwrap_err();
    assert_eq!(error.unanswered.unwrap().sequence, 1);
    assert_eq!(house.told("project run failed")[0]["session_call"], 1);
    let next = house.call("alice", &id, project("make", "")).await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn a_grant_is_there_for_its_call_alone_and_its_route_caps_span_the_session() {
    let house = House::of_containers(&[], profiles());
    let id = house.open("alice").await.unwrap().session_id;
    let granted = house.call("alice", &id, project("api", "here")).await.unwrap();
    assert_eq!(said(&granted), "502");
    assert_eq!(said(&house.cell("alice", &id, "api").await.unwrap()), "no grant");
    assert_eq!(
        said(&house.call("alice", &id, project("api", "")).await.unwrap()),
        "no grant"
    );
    // One call of the route in all: the project had it.
    let capped = house.call("alice", &id, snippet("api", "here")).await.unwrap();
    assert_eq!(said(&capped), "429");
    let other = house.open("alice").await.unwrap().session_id;
    let fresh = house.call("alice", &other, snippet("api", "here")).await.unwrap();
    assert_eq!(said(&fresh), "502");
    let lines = house.told("project run");
    assert_eq!(
        (&lines[0]["grant_profile"], &lines[0]["host_calls"]),
        (&"here".into(), &1.into())
    );
    assert_eq!(lines[1].get("host_calls"), None);
}

#[tokio::test]
async fn a_grant_that_is_not_for_sessions_or_not_this_callers_is_refused_before_the_turn() {
    let house = House::of_containers(&[], profiles());
    let id = house.open("alice").await.unwrap().session_id;
    let bobs = house.open("bob").await.unwrap().session_id;
    let permission = (Code::PermissionDenied, Reason::Permission, None);
    let (held, waiting, ()) = tokio::join!(
        house.cell("alice", &id, "hold"),
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            house.cell("alice", &id, "waits").await
        },
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            // Not busy: these can never run.
            for payload in [snippet("1", "elsewhere"), project("1", "elsewhere")] {
                assert_eq!(refused(house.call("alice", &id, payload).await), permission);
            }
            let text = |answer: Result<SessionAnswer, SessionError>| refusal(answer.unwrap_err().error);
            let foreign = text(house.call("bob", &bobs, snippet("1", "here")).await);
            let unknown = text(house.call("bob", &bobs, snippet("1", "nowhere")).await);
            assert_eq!(foreign.reason(), Reason::Permission);
            assert_eq!(
                foreign.message().replace("here", "X"),
                unknown.message().replace("nowhere", "X")
            );
            house.script.release.notify_one();
        }
    );
    held.unwrap();
    waiting.unwrap();
    assert_eq!(house.script.runs.load(SeqCst), 2);
}

#[tokio::test]
async fn a_grant_in_a_session_of_a_provider_without_them_is_unsupported() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    // No profile either: who may use which is asked first.
    let answer = house.call("alice", &id, snippet("1", "here")).await;
    assert_eq!(refused(answer).1, Reason::Permission);
    let unsupported = House::without_grants(profiles());
    let id = unsupported.open("alice").await.unwrap().session_id;
    for payload in [snippet("1", "here"), project("1", "here")] {
        let answer = unsupported.call("alice", &id, payload).await;
        assert_eq!(refused(answer), (Code::Unimplemented, Reason::Unsupported, None));
    }
}

#[tokio::test]
async fn what_a_session_may_write_reaches_a_provider_that_can_bound_it_and_no_other() {
    for (value, bytes) in [(None, 1 << 30), (Some("64"), 64 << 20), (Some("0"), 0)] {
        let values: Vec<_> = value.map(|mb| ("SANDBOX_SESSION_DISK_MB", mb)).into_iter().collect();
        let house = House::of_containers(&values, Profiles::default());
        house.open("alice").await.unwrap();
        assert_eq!(*house.script.disk_bytes.lock().unwrap(), Some(bytes), "{value:?}");
    }
    let house = House::new(&[]);
    house.open("alice").await.unwrap();
    assert_eq!(*house.script.disk_bytes.lock().unwrap(), Some(0));
}
