//! What is left after runs, and after a program that embeds the sandbox was killed in the middle of some.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use tokio::process::Command;
use tokio::time::sleep;

use crate::embedder::Embedder;
use crate::support::{run, runtime};

/// Processes of this host that belong to one of the containers: their control groups name it.
pub(crate) fn processes_of(containers: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        // A process may end while it is looked at.
        let groups = fs_err::read_to_string(path.join("cgroup")).unwrap_or_default();
        if containers.iter().any(|id| groups.contains(id.as_str())) {
            let line = fs_err::read_to_string(path.join("cmdline")).unwrap_or_default();
            // One that has ended and was not collected yet runs nothing.
            let state = fs_err::read_to_string(path.join("stat")).unwrap_or_default();
            if !state.is_empty() && !state.contains(") Z ") {
                let line: String = line.replace('\0', " ").chars().take(80).collect();
                found.push(format!("{} {line}", path.display()));
            }
        }
    }
    found
}

/// Control groups of this host that are named after one of the containers.
pub(crate) fn groups_of(containers: &[String], folder: &Path, depth: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if containers.iter().any(|id| name.contains(&id[..12])) {
            found.push(entry.path().display().to_string());
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(groups_of(containers, &entry.path(), depth - 1));
        }
    }
    found
}

#[test]
fn every_end_of_a_run_leaves_nothing_behind() {
    run(async {
        for pool in ["0", "1"] {
            let mut embedder = Embedder::start(&["series"], &[("SANDBOX_READY_POOL", pool)]);
            let told = embedder.tells().await;
            assert_eq!(told["before"], told["after"], "pool {pool}: {told}");
            let status = embedder.child.wait().await.unwrap();
            assert!(status.success(), "{status}");
            let containers: Vec<String> = serde_json::from_value(told["containers"].clone()).unwrap();
            assert!(containers.len() >= 16, "{containers:?}");
            assert_eq!(embedder.containers().await, Vec::<String>::new());
            assert_eq!(
                groups_of(&containers, Path::new("/sys/fs/cgroup"), 3),
                Vec::<String>::new()
            );
            let left: Vec<_> = fs_err::read_dir(embedder.temp.path()).unwrap().collect();
            assert!(left.is_empty(), "pool {pool}: {left:?}");
        }
    });
}

#[test]
fn the_command_leaves_no_folder_behind() {
    run(async {
        let project = tempfile::tempdir().unwrap();
        fs_err::write(project.path().join("a.js"), "console.log(6*7)").unwrap();
        let (file, folder) = (project.path().join("a.js"), project.path().to_str().unwrap());
        for arguments in [
            &["run", file.to_str().unwrap()][..],
            &["run", folder, "--step", "node a.js"],
            &["run", folder, "--step", "node a.js; exit 3"],
        ] {
            let temp = tempfile::tempdir().unwrap();
            let ran = Command::new(env!("CARGO_BIN_EXE_command-under-test"))
                .args(arguments)
                .env("TMPDIR", temp.path())
                .env("SANDBOX_PROVIDER", "Docker")
                .env("SANDBOX_DOCKER_RUNTIME", runtime())
                .stdin(Stdio::null())
                .output()
                .await
                .unwrap();
            assert_eq!(ran.stdout, b"42\n", "{arguments:?}: {ran:?}");
            let left: Vec<_> = fs_err::read_dir(temp.path()).unwrap().collect();
            assert!(left.is_empty(), "{arguments:?}: {left:?}");
        }
    });
}

#[test]
fn no_guest_code_runs_two_seconds_after_its_embedder_was_killed_and_the_next_look_removes_the_rest() {
    run(async {
        let mut embedder = Embedder::start(&["hold"], &[("SANDBOX_READY_POOL", "1")]);
        embedder.tells().await;
        // A snippet and a project that run, and one of each that waits.
        let mut containers = Vec::new();
        for _ in 0..80 {
            sleep(Duration::from_millis(250)).await;
            containers = embedder.containers().await;
            if containers.len() == 4 {
                break;
            }
        }
        assert_eq!(containers.len(), 4);
        sleep(Duration::from_secs(2)).await;
        assert!(processes_of(&containers).len() >= 4, "{:?}", processes_of(&containers));

        embedder.child.start_kill().unwrap();
        embedder.child.wait().await.unwrap();
        let killed = Instant::now();
        let mut left = processes_of(&containers);
        while !left.is_empty() && killed.elapsed() < Duration::from_secs(2) {
            sleep(Duration::from_millis(50)).await;
            left = processes_of(&containers);
        }
        assert!(left.is_empty(), "{:?} after the kill: {left:#?}", killed.elapsed());

        // What the engine has not cleared away by itself is an orphan at once, whatever its label says; a folder is one when it
        // is old enough.
        let long_ago = SystemTime::now() - Duration::from_secs(120);
        let folders: Vec<_> = fs_err::read_dir(embedder.temp.path()).unwrap().flatten().collect();
        assert!(folders.len() >= 5, "{folders:?}");
        for folder in folders {
            let folder = fs_err::File::open(folder.path()).unwrap();
            folder.into_parts().0.set_modified(long_ago).unwrap();
        }
        embedder.cleared().await;
        assert_eq!(embedder.containers().await, Vec::<String>::new());
        assert_eq!(
            groups_of(&containers, Path::new("/sys/fs/cgroup"), 3),
            Vec::<String>::new()
        );
        let left: Vec<_> = fs_err::read_dir(embedder.temp.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_container_of_a_live_owner_is_never_taken_for_an_orphan() {
    run(async {
        let mut embedder = Embedder::start(&["hold"], &[]);
        embedder.tells().await;
        // The containers of its smoke test go first.
        let mut held = embedder.containers().await;
        for _ in 0..80 {
            sleep(Duration::from_millis(500)).await;
            let now = embedder.containers().await;
            if held.len() == 2 && now == held {
                break;
            }
            held = now;
        }
        embedder.cleared().await;
        assert_eq!((embedder.containers().await, held.len()), (held, 2));
        embedder.child.kill().await.unwrap();
    });
}
