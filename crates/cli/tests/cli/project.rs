//! `plimsoll run DIR --step`, as far as it goes without a container: every way in which nothing runs, and what is said.

#![expect(clippy::unwrap_used, reason = "tests of a program start it and fail by panicking")]

use std::path::Path;

use crate::support::{Daemon, Ran, TOKEN, command, finish, plimsoll};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("main.js"), "console.log(6*7)").unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Ran {
    plimsoll(&[&["run", folder.to_str().unwrap()], args].concat())
}

/// What was said, without the folder's own name.
fn told(ran: &Ran, folder: &Path) -> String {
    let said = ran.stderr.split("\n\nUsage: ").next().unwrap_or_default();
    format!(
        "[{}] {}",
        ran.code,
        said.replace(folder.to_str().unwrap(), "DIR").trim_end()
    )
}

#[test]
fn a_project_that_needs_a_shell_is_refused_on_wasm_in_plain_words() {
    let folder = folder();
    let refused = run(folder.path(), &["--step", "node main.js | cat"]);
    assert_eq!((refused.code, refused.stdout_text()), (125, ""));
    insta::assert_snapshot!(refused.stderr, @"plimsoll: nothing ran (unsupported): --step number 1 cannot run on provider wasm: it uses `|`, which needs a shell; wasm runs steps of the form `node FILE [arguments]` only; for shell steps use --provider docker, or --daemon with a daemon that has a shell");

    let object = run(folder.path(), &["--step", "node main.js | cat", "--json", "-q"]);
    let error: serde_json::Value = serde_json::from_slice(&object.stdout).unwrap();
    // Reason 4, unsupported.
    assert_eq!(
        (&error["code"], &error["details"][0]["value"]),
        (&"unimplemented".into(), &"CAQ".into())
    );
    // The floor comes before what a provider can do.
    let floor = run(folder.path(), &["--step", "true", "--floor", "vm"]);
    assert!(
        floor.stderr.starts_with("plimsoll: nothing ran (isolation): "),
        "{}",
        floor.stderr
    );
}

#[test]
fn a_project_of_node_steps_runs_on_wasm_and_brings_its_artifact_back() {
    let folder = folder();
    fs_err::write(
        folder.path().join("write.mjs"),
        "import fs from 'node:fs'; fs.writeFileSync('out.txt', process.argv[2])",
    )
    .unwrap();
    let out = folder.path().join("results");
    let args = [
        "--step",
        "node main.js",
        "--step",
        "node write.mjs 'two words'",
        "--artifact",
        "out.txt",
        "--out",
        out.to_str().unwrap(),
        "--floor",
        "process",
    ];
    let ran = run(folder.path(), &args);
    assert_eq!((ran.code, ran.stdout_text()), (0, "42\n"), "{}", ran.stderr);
    assert_eq!(fs_err::read_to_string(out.join("out.txt")).unwrap(), "two words");
}

#[test]
fn what_cannot_be_written_here_is_told_after_everything_the_run_gave() {
    let folder = folder();
    fs_err::write(folder.path().join("fail.js"), "process.exit(3)").unwrap();
    let step = ["--step", "node main.js", "--artifact", "main.js", "--out"];
    // Nobody makes a folder there, and before the run nothing shows that.
    let nowhere = [&step[..], &["/proc/plimsoll-results"]].concat();
    for (more, exit_code) in [(&[][..], 1), (&["--quiet"], 1), (&["--step", "node fail.js"], 3)] {
        let quiet = more == ["--quiet"];
        let ran = run(folder.path(), &[&nowhere[..], more].concat());
        // A run that succeeded must not look as if its artifact were there; one that failed keeps its own exit code.
        assert_eq!((ran.code, ran.stdout_text()), (exit_code, "42\n"), "{}", ran.stderr);
        assert_eq!(
            ran.stderr.contains("0 of 1 artifacts in /proc/plimsoll-results"),
            !quiet,
            "{}",
            ran.stderr
        );
        assert_eq!(ran.stderr.contains("record "), !quiet, "{}", ran.stderr);
        let lost = "\nplimsoll: no artifact could be written to /proc/plimsoll-results: ";
        assert!(format!("\n{}", ran.stderr).contains(lost), "{}", ran.stderr);
    }
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let path = folder.path().to_str().unwrap();
    let args = ["run", path, "--step", "node main.js"];
    let ran = finish(command(&args).stdout(full.into_parts().0).spawn().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("\nplimsoll: the output could not be written: ") && ran.stderr.contains("record "),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_artifact_whose_folder_is_a_link_is_refused_before_anything_runs() {
    let (folder, out) = (folder(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(folder.path(), out.path().join("link")).unwrap();
    let step = ["--step", "node main.js", "--artifact", "link/sub/x.txt", "--out"];
    let ran = run(folder.path(), &[&step[..], &[out.path().to_str().unwrap()]].concat());
    assert_eq!((ran.code, ran.stdout_text()), (125, ""));
    assert!(
        ran.stderr
            .contains("/link is a link, and no artifact is written through one"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_daemon_without_a_shell_refuses_it_too() {
    let (folder, daemon) = (folder(), Daemon::start());
    let args = [
        "run",
        folder.path().to_str().unwrap(),
        "--step",
        "true",
        "--daemon",
        &daemon.url,
    ];
    let refused = finish(command(&args).env("PLIMSOLL_TOKEN", TOKEN).spawn().unwrap());
    assert_eq!((refused.code, refused.stdout_text()), (125, ""));
    insta::assert_snapshot!(refused.stderr, @"plimsoll: nothing ran (unsupported): --step number 1 cannot run on provider wasm: it does not begin with `node`; wasm runs steps of the form `node FILE [arguments]` only; `plimsoll describe --daemon` shows what it runs");
}

#[test]
fn what_cannot_be_a_project_is_told_before_anything_runs() {
    let folder = folder();
    let dir = folder.path();
    fs_err::create_dir_all(dir.join("results/sub")).unwrap();
    fs_err::write(dir.join("results/old.txt"), "mine").unwrap();
    let out = dir.join("results");
    let out = out.to_str().unwrap();
    let file = dir.join("main.js");
    let long = "x".repeat(16 * 1024 + 1);
    let many: Vec<&str> = ["--step", "true"].into_iter().cycle().take(42).collect();
    let step = |more: &[&'static str]| -> Vec<String> {
        let all = [&["--step", "true"], more].concat();
        all.iter().map(|arg| arg.replace("OUT", out)).collect()
    };
    let ran = |args: Vec<String>| run(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let lines = [
        told(&run(dir, &[]), dir),
        told(&plimsoll(&["run", file.to_str().unwrap(), "--step", "true"]), dir),
        told(&plimsoll(&["run", "-", "--step", "true"]), dir),
        told(&plimsoll(&["run", "/nonexistent/project", "--step", "true"]), dir),
        told(&run(dir, &["--artifact", "a"]), dir),
        told(&ran(step(&["--artifact", "a"])), dir),
        told(&ran(step(&["--out", "OUT"])), dir),
        told(&ran(step(&["--artifact", "old.txt", "--out", "OUT"])), dir),
        told(&ran(step(&["--artifact", "sub", "--out", "OUT", "--force"])), dir),
        told(&ran(step(&["--artifact", "old.txt/a", "--out", "OUT"])), dir),
        told(&ran(step(&["--artifact", "../a", "--out", "OUT"])), dir),
        told(&ran(step(&["--artifact", "a", "--artifact", "a", "--out", "OUT"])), dir),
        told(&run(dir, &["--step", &long]), dir),
        told(&run(dir, &many), dir),
    ];
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(fs_err::read_to_string(dir.join("results/old.txt")).unwrap(), "mine");
}
