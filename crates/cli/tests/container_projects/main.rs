//! `plimsoll run DIR --step` against a container engine, under the runtime that `PLIMSOLL_TEST_RUNTIME` names.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program start it and fail by panicking"
)]

#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "made for the suite beside this one, which uses all of it")]
mod support;

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use support::{Daemon, Ran, TOKEN, command, finish};

fn runtime() -> String {
    let name = std::env::var("PLIMSOLL_TEST_RUNTIME");
    name.expect("PLIMSOLL_TEST_RUNTIME names the runtime under test: runc or runsc")
}

fn tier() -> &'static str {
    if runtime() == "runsc" { "kernel" } else { "container" }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let at = folder.path().join(path);
        fs_err::create_dir_all(at.parent().unwrap()).unwrap();
        fs_err::write(at, content).unwrap();
    }
    folder
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let all = [&["run", "--provider", "docker", folder.to_str().unwrap()], args].concat();
    let mut command = command(&all);
    command.env("SANDBOX_DOCKER_RUNTIME", runtime());
    command.spawn().unwrap()
}

fn run(folder: &Path, args: &[&str]) -> Ran {
    finish(start(folder, args))
}

#[test]
fn steps_run_in_order_and_artifacts_come_back_byte_for_byte() {
    let folder = folder(&[
        (
            "src/main.mjs",
            "process.stdout.write('one'); process.stderr.write('two\\n');",
        ),
        (".hidden", "h\n"),
        (".git/config", "[secret]"),
    ]);
    let out = folder.path().join("results");
    let ran = run(
        folder.path(),
        &[
            "--floor",
            tier(),
            "--step",
            "node src/main.mjs",
            "--step",
            "cat .hidden; ls -a; printf '\\000\\377\\n' > deep.bin; mkdir -p d; cp deep.bin d/copy",
            "--artifact",
            "d/copy",
            "--artifact",
            "none",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout_text(), "oneh\n.\n..\n.hidden\nsrc\n");
    assert_eq!(fs_err::read(out.join("d/copy")).unwrap(), [0, 255, b'\n']);
    assert!(!out.join("none").exists());
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(
        lines[..2],
        ["two", "plimsoll: left out of the project: .git"],
        "{}",
        ran.stderr
    );
    assert!(lines[2].starts_with("plimsoll: step 1 of 2, exit 0, ") && lines[2].ends_with(": node src/main.mjs"));
    assert!(lines[4].starts_with("plimsoll: no artifact none: "), "{}", ran.stderr);
    let last = lines.last().unwrap();
    assert!(
        last.starts_with(&format!("plimsoll: tier {}, ", tier()))
            && last.contains(", all 2 steps succeeded, 1 of 2 artifacts in ")
            && last.contains(", record "),
        "{last}"
    );
}

#[test]
fn the_step_that_fails_is_the_last_and_decides_the_exit_code() {
    let folder = folder(&[("a", "1")]);
    let out = folder.path().join("results");
    let args = [
        "--step",
        "cp a b; exit 7",
        "--step",
        "echo never",
        "--artifact",
        "b",
        "--out",
    ];
    let ran = run(folder.path(), &[&args[..], &[out.to_str().unwrap()]].concat());
    assert_eq!((ran.code, ran.stdout_text()), (7, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("step 1 of 2 failed with exit 7"), "{}", ran.stderr);
    assert_eq!(fs_err::read_to_string(out.join("b")).unwrap(), "1");

    let late = run(folder.path(), &["--step", "echo kept; sleep 30", "--timeout", "1s"]);
    assert_eq!((late.code, late.stdout_text()), (124, "kept\n"), "{}", late.stderr);
    assert!(late.stderr.contains("timed_out"), "{}", late.stderr);
    assert_eq!(run(folder.path(), &["-q", "--step", "kill -9 $$"]).code, 137);
}

#[test]
fn the_whole_answer_is_a_run_response_with_its_record() {
    let folder = folder(&[("a", "1")]);
    let ran = run(folder.path(), &["--step", "cat a", "--artifact", "a", "--json", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let answer: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&answer["sandbox"], &answer["isolation"], &answer["record"]["version"]),
        (&"docker".into(), &tier().into(), &4.into())
    );
    let project = &answer["project"];
    assert_eq!(
        (&project["steps"][0]["stdout"], &project["artifacts"][0]["content"]),
        (&"MQ==".into(), &"MQ==".into())
    );
}

#[test]
fn a_daemon_gives_the_same_answer() {
    let folder = folder(&[("a", "1")]);
    let daemon = Daemon::start_with(&[("SANDBOX_PROVIDER", "docker"), ("SANDBOX_DOCKER_RUNTIME", &runtime())]);
    let out = folder.path().join("results");
    let args = [
        "run",
        folder.path().to_str().unwrap(),
        "--daemon",
        &daemon.url,
        "--floor",
        tier(),
        "--step",
        "cat a",
        "--step",
        "exit 3",
        "--artifact",
        "a",
        "--out",
        out.to_str().unwrap(),
    ];
    let ran = finish(command(&args).env("PLIMSOLL_TOKEN", TOKEN).spawn().unwrap());
    assert_eq!((ran.code, ran.stdout_text()), (3, "1"), "{}", ran.stderr);
    assert_eq!(fs_err::read_to_string(out.join("a")).unwrap(), "1");
    assert!(ran.stderr.contains("step 2 of 2 failed with exit 3"), "{}", ran.stderr);
}

#[test]
fn a_snippet_runs_there_too() {
    let folder = folder(&[("main.js", "console.log(process.version.split('.')[0], 6*7)")]);
    let file = folder.path().join("main.js");
    let ran = run(&file, &["--floor", tier()]);
    assert_eq!((ran.code, ran.stdout_text()), (0, "v22 42\n"), "{}", ran.stderr);
}

#[test]
fn an_interrupted_run_ends_at_once_and_is_told_as_such() {
    let folder = folder(&[]);
    let marker = folder.path().join("results");
    let args = ["--step", "sleep 100", "--timeout", "110s", "--artifact", "a", "--out"];
    let child = start(folder.path(), &[&args[..], &[marker.to_str().unwrap()]].concat());
    // However far it has come by then, it may neither go on nor end as if it had run to its end.
    std::thread::sleep(Duration::from_secs(6));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let asked = Instant::now();
    let ran = finish(child);
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    assert!(matches!(ran.code, 123 | 125), "{} {}", ran.code, ran.stderr);
    assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);
    assert!(!marker.exists());
}
