//! An engine that goes away in the middle of runs and sessions, and comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::{Cell, Project, RunError, Sandbox, Session, verify_chain};
use plimsoll_core::{FaultKind, ProjectOutcome, Reason, Resources, SessionEnd};
use plimsoll_docker::provider::Docker;
use plimsoll_docker::settings::DockerSettings;
use plimsoll_sandbox::Sandbox as _;
use tokio::time::{sleep, timeout};

use crate::leftovers::{groups_of, processes_of};
use crate::own_engine::{End, OwnEngine};
use crate::support::{run, variables};

/// How long a call may still wait for an engine that has gone: far below what the calls themselves may take.
const NOTICED: Duration = Duration::from_secs(20);

/// How long an engine that is back may take until runs are served: the state is looked at every few seconds.
const BACK: Duration = Duration::from_secs(15);

/// Calls that last longer than the whole test.
const LONG: Duration = Duration::from_secs(110);

async fn session(sandbox: &Sandbox) -> Session {
    let session = sandbox.open_session().any_tier().language("javascript").send();
    let session = session.await.unwrap();
    let set = session
        .run_cell(Cell::javascript("var kept = 41"))
        .send()
        .await
        .unwrap();
    assert_eq!(set.exit_code, 0, "{}", set.stderr_text());
    session
}

/// The owner of the folder in which this process's socket lies, as its containers name it.
async fn owner(own: &OwnEngine) -> String {
    let id = own.containers().await.into_keys().next().unwrap();
    let container = own.json(&format!("/containers/{id}/json")).await;
    container["Config"]["Labels"][crate::engine::OWNER]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The engine's containers once there are this many.
async fn there_are(count: usize, own: &OwnEngine) -> BTreeMap<String, PathBuf> {
    let began = Instant::now();
    loop {
        let containers = own.containers().await;
        if containers.len() == count {
            return containers;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{containers:?}");
        sleep(Duration::from_millis(250)).await;
    }
}

/// Waits until no process is in one of these containers.
async fn gone(ids: &[String]) {
    let began = Instant::now();
    let mut left = processes_of(ids);
    while !left.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10), "{left:?}");
        sleep(Duration::from_millis(50)).await;
        left = processes_of(ids);
    }
}

async fn through_a_restart(how: End) {
    let mut own = OwnEngine::start().await;
    let host = own.host();
    let variables = variables(&[("DOCKER_HOST", &host)]);
    let settings = DockerSettings::read(&variables, Resources::default()).unwrap();
    let docker = Arc::new(Docker::new(settings, Resources::default(), 1));
    let sandbox = Sandbox::with_provider(docker.clone()).await.unwrap();
    let (idle, busy) = (session(&sandbox).await, session(&sandbox).await);
    // One member of each pool beside them; each is there from its creation, and a moment later it waits. So the calls below
    // are dispatched as they come.
    there_are(4, &own).await;
    sleep(Duration::from_secs(3)).await;

    let snippet = tokio::spawn({
        let sandbox = sandbox.clone();
        async move {
            let call = sandbox.run_javascript("for (;;);").any_tier().timeout(LONG);
            call.send().await
        }
    });
    let project = tokio::spawn({
        let sandbox = sandbox.clone();
        async move {
            let project = Project::new().step("echo begun; sleep 100").step("echo never");
            sandbox.run_project(project).any_tier().timeout(LONG).send().await
        }
    });
    let cell = tokio::spawn(async move {
        let ended = busy.run_cell(Cell::javascript("for (;;);")).timeout(LONG).send().await;
        (busy, ended)
    });
    // Two runs, two sessions, and one member of each pool.
    let containers = there_are(6, &own).await;
    sleep(Duration::from_secs(3)).await;
    let owner = owner(&own).await;
    let ids: Vec<String> = containers.keys().cloned().collect();
    assert!(processes_of(&ids).len() >= 6);

    own.end(how).await;
    // Nobody is told a success or a time limit: the code may have run, and nothing says how it ended.
    let ended = timeout(NOTICED, snippet)
        .await
        .expect("a snippet waits for an engine that has gone");
    match ended.unwrap() {
        Err(RunError::MayHaveRun(fault)) => assert_eq!(fault.kind(), FaultKind::Internal, "{fault}"),
        other => panic!("{how:?}: {other:?}"),
    }
    let ended = timeout(NOTICED, project)
        .await
        .expect("a project waits for an engine that has gone");
    match ended.unwrap() {
        Ok(ran) => assert_eq!(
            (ran.outcome, ran.steps.len()),
            (ProjectOutcome::PROTOCOL_ERROR, 0),
            "{}",
            ran.outcome_detail
        ),
        Err(RunError::MayHaveRun(fault)) => assert_eq!(fault.kind(), FaultKind::Internal, "{fault}"),
        Err(other) => panic!("{how:?}: {other:?}"),
    }
    let ended = timeout(NOTICED, cell)
        .await
        .expect("a cell waits for an engine that has gone");
    let (busy, ended) = ended.unwrap();
    match ended {
        Err(RunError::MayHaveRun(fault)) => assert_eq!(fault.kind(), FaultKind::SessionEnded, "{fault}"),
        other => panic!("{how:?}: {other:?}"),
    }
    // An engine that is asked to end takes its containers along. One that is killed leaves them to themselves, with its helpers
    // at the other end of their streams, until it is back.
    if matches!(how, End::Asked) {
        gone(&ids).await;
    }

    // While it is down nothing runs, and that is said so.
    match timeout(NOTICED, sandbox.run_javascript("1").any_tier().send())
        .await
        .unwrap()
    {
        Err(RunError::NotDispatched(refusal)) => assert_eq!(refusal.reason(), Reason::Environment, "{refusal}"),
        other => panic!("{how:?}: {other:?}"),
    }

    own.serve().await;
    let began = Instant::now();
    let ran = loop {
        match sandbox.run_javascript("console.log(6 * 7)").any_tier().send().await {
            Ok(ran) => break ran,
            Err(error) => {
                assert_eq!(error.reason(), Some(Reason::Environment), "{how:?}: {error}");
                assert!(began.elapsed() < BACK, "{how:?}: {error}");
                sleep(Duration::from_millis(200)).await;
            }
        }
    };
    assert_eq!(ran.stdout_text(), "42\n");
    gone(&ids).await;

    // A sandbox that was lost is told as that, by every call, and what was recorded of the session before stays provable.
    for lost in [&idle, &busy] {
        let ended = lost.run_cell(Cell::javascript("kept + 1")).send().await;
        match ended {
            Err(RunError::NotDispatched(refusal)) => {
                let ended = refusal.session_end().unwrap_or_else(|| panic!("{how:?}: {refusal}"));
                assert!(
                    matches!(ended.end, SessionEnd::MainProcessEnded | SessionEnd::BoundaryFailed),
                    "{how:?}: {ended:?}"
                );
            }
            other => panic!("{how:?}: {other:?}"),
        }
        let records = lost.records();
        assert_eq!(
            verify_chain(&records).unwrap().calls(),
            u64::try_from(records.len()).unwrap()
        );
        assert!(!records.is_empty());
    }
    let fresh = session(&sandbox).await;
    let kept = fresh.run_cell(Cell::javascript("kept + 1")).send().await.unwrap();
    assert_eq!(kept.stdout_text(), "42\n");
    for session in [idle, busy, fresh] {
        // One whose sandbox is gone has nothing that could fail to be removed.
        session.close().await.unwrap();
    }

    // What a daemon does every minute finds what was not removed while the engine was down.
    sandbox.drain().await.unwrap();
    docker.reconcile().await.unwrap();
    assert_eq!(
        own.containers().await.into_keys().collect::<BTreeSet<_>>(),
        BTreeSet::new()
    );
    drop((sandbox, docker));
    assert_eq!(groups_of(&ids, Path::new("/sys/fs/cgroup"), 3), Vec::<String>::new());
    let mut folders: Vec<_> = containers.into_values().collect();
    folders.push(owner.into());
    folders.retain(|folder| fs_err::symlink_metadata(folder).is_ok());
    assert!(folders.is_empty(), "{folders:?}");
}

#[test]
fn an_engine_that_is_stopped_and_started_again_loses_what_ran_and_nothing_else() {
    run(through_a_restart(End::Asked));
}

#[test]
fn an_engine_that_is_killed_and_started_again_loses_what_ran_and_nothing_else() {
    run(through_a_restart(End::Killed));
}
