//! Sessions without a daemon: what stays, what does not, and what the chain of records shows.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use plimsoll::{Cell, Project, Reason, RunError, Sandbox, SessionEnd, SoftwareRule, Tier, verify_chain};

async fn sandbox() -> Sandbox {
    Sandbox::wasm().memory_mb(64).max_concurrent(2).build().await.unwrap()
}

fn refused(error: &RunError) -> Reason {
    match error {
        RunError::NotDispatched(refusal) => refusal.reason(),
        RunError::MayHaveRun(fault) => panic!("nothing may have run: {fault}"),
    }
}

#[tokio::test]
async fn variables_and_files_stay_and_every_record_is_the_next_of_the_chain() {
    let sandbox = sandbox().await;
    let session = sandbox
        .open_session()
        .language("javascript")
        .floor(Tier::Process)
        .send()
        .await
        .unwrap();
    let first = session
        .run_cell(Cell::javascript("let n = 41").file("n.txt", "1"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (first.tier, first.interpreter_started, first.record.sequence),
        (Tier::Process, true, 1)
    );
    let second = session
        .run_cell(Cell::javascript(
            "n + Number(require('fs').readFileSync('n.txt', 'utf8'))",
        ))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (second.stdout_text().as_ref(), second.interpreter_started),
        ("42\n", false)
    );
    let snippet = session.run_javascript("console.log(typeof n)").send().await.unwrap();
    assert_eq!(snippet.stdout, b"undefined\n");
    let records = session.records();
    assert_eq!(records[1..], [second.record, snippet.record]);
    assert!(records.iter().all(|record| record.session == session.fingerprint()));
    let chain = verify_chain(&records).unwrap();
    let (calls, last) = (session.calls(), session.last_record_sha256());
    assert_eq!((chain.calls(), chain.last_sha256()), (calls, last.as_str()));
    let summary = session.close().await.unwrap();
    assert_eq!(
        (summary.calls, summary.last_record_sha256, summary.end),
        (3, last, SessionEnd::Closed)
    );
}

#[tokio::test]
async fn a_cell_that_fails_or_never_ends_is_a_result_and_the_session_goes_on() {
    let sandbox = sandbox().await;
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    let raised = session
        .run_cell(Cell::javascript("let n = 1; throw new Error('boom')"))
        .send()
        .await
        .unwrap();
    assert_eq!((raised.exit_code, raised.interpreter_ended), (1, false));
    assert!(raised.stderr_text().contains("Error: boom"));
    let endless = session
        .run_cell(Cell::javascript("while (true) {}"))
        .timeout(Duration::from_millis(100))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (endless.exit_code, endless.timed_out, endless.interpreter_ended),
        (124, true, true)
    );
    let fresh = session.run_cell(Cell::javascript("typeof n")).send().await.unwrap();
    assert_eq!(
        (fresh.stdout_text().as_ref(), fresh.interpreter_started),
        ("'undefined'\n", true)
    );
    assert_eq!(verify_chain(&session.records()).unwrap().calls(), 3);
}

#[tokio::test]
async fn what_is_refused_is_no_link_of_the_chain() {
    let sandbox = sandbox().await;
    let floor = sandbox.open_session().floor(Tier::Vm).send().await.unwrap_err();
    assert_eq!(refused(&floor), Reason::Isolation);
    let rule = SoftwareRule::exact("nobody").unwrap();
    let software = sandbox
        .open_session()
        .software(&rule)
        .any_tier()
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused(&software), Reason::Environment);
    let session = sandbox.open_session().floor(Tier::Process).send().await.unwrap();
    let call = || session.run_cell(Cell::javascript("1"));
    for (error, reason) in [
        (
            call().floor(Tier::Container).send().await.unwrap_err(),
            Reason::Isolation,
        ),
        // Narrower than the session's, so it is compared with what the session runs.
        (
            call().software(rule.clone()).send().await.unwrap_err(),
            Reason::Environment,
        ),
        (
            session.run_cell(Cell::python("1")).send().await.unwrap_err(),
            Reason::Environment,
        ),
        (
            session.run_cell(Cell::javascript("")).send().await.unwrap_err(),
            Reason::Request,
        ),
    ] {
        assert_eq!(refused(&error), reason, "{error}");
    }
    let shell = session
        .run_project(Project::new().step("ls | wc -l"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused(&shell), Reason::Unsupported);
    let grant = session
        .run_javascript("1")
        .grant_profile("nobody")
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused(&grant), Reason::Permission);
    assert_eq!((session.calls(), session.ended()), (0, None));
    call().send().await.unwrap();
    assert_eq!(session.close().await.unwrap().calls, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_has_its_place_and_the_session_goes_on() {
    let sandbox = sandbox().await;
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    let begun = Instant::now();
    let endless = || {
        session
            .run_cell(Cell::javascript("while (true) {}"))
            .timeout(Duration::from_secs(20))
    };
    let stopped = endless()
        .send_until(tokio::time::sleep(Duration::from_millis(100)))
        .await;
    assert!(matches!(stopped.unwrap_err(), RunError::MayHaveRun(_)));
    assert_eq!(
        (session.calls(), session.records()[0].unanswered.as_str()),
        (1, "canceled")
    );
    tokio::select! {
        _ = endless().send() => panic!("it never ends"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    // The next call waits for the one that was dropped to be gone.
    let after = session.run_cell(Cell::javascript("6 * 7")).send().await.unwrap();
    assert_eq!((after.stdout_text().as_ref(), after.record.sequence), ("42\n", 3));
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(verify_chain(&session.records()).unwrap().calls(), 3);
    assert_eq!(session.close().await.unwrap().calls, 3);
}

#[tokio::test]
async fn a_session_ends_with_its_lifetime_also_during_a_call() {
    let sandbox = sandbox().await;
    let session = sandbox
        .open_session()
        .lifetime(Duration::from_millis(300))
        .any_tier()
        .send()
        .await
        .unwrap();
    let cut = session
        .run_cell(Cell::javascript("while (true) {}"))
        .timeout(Duration::from_secs(20))
        .send()
        .await;
    let RunError::MayHaveRun(cut) = cut.unwrap_err() else {
        panic!("it ran");
    };
    assert_eq!(
        cut.message(),
        "the session ended during the call (expired: its lifetime is over)"
    );
    assert_eq!(session.ended().unwrap().end, SessionEnd::Expired);
    let refusal = session.run_cell(Cell::javascript("1")).send().await.unwrap_err();
    assert_eq!(refused(&refusal), Reason::Request);
    let summary = session.close().await.unwrap();
    assert_eq!((summary.calls, summary.end), (1, SessionEnd::Expired));
}

#[tokio::test]
async fn a_session_holds_its_place_until_it_is_closed_or_dropped() {
    let sandbox = Sandbox::wasm().memory_mb(64).max_concurrent(1).build().await.unwrap();
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    let full = sandbox.run_javascript("1").any_tier().send().await.unwrap_err();
    assert_eq!(refused(&full), Reason::Capacity);
    session.run_cell(Cell::javascript("1")).send().await.unwrap();
    session.close().await.unwrap();
    sandbox.run_javascript("1").any_tier().send().await.unwrap();
    drop(sandbox.open_session().any_tier().send().await.unwrap());
    let begun = Instant::now();
    while sandbox.run_javascript("1").any_tier().send().await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "a dropped session gives its place back"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn calls_go_one_after_the_other_in_their_order() {
    let sandbox = sandbox().await;
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    session
        .run_cell(Cell::javascript("const seen = []"))
        .send()
        .await
        .unwrap();
    let call = |n: u32| {
        session
            .run_cell(Cell::javascript(format!("seen.push({n}); seen.join()")))
            .send()
    };
    let (a, b, c) = tokio::join!(call(1), call(2), call(3));
    let told = [a, b, c].map(|ran| ran.unwrap().stdout_text().into_owned());
    assert_eq!(told, ["'1'\n", "'1,2'\n", "'1,2,3'\n"]);
}
