//! `plimsoll session`: cells from standard input, in this process and on a daemon.

#![expect(clippy::unwrap_used, reason = "tests of a program fail by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Daemon, Ran, TOKEN, command, finish};

pub(crate) const KEEPING: [(&str, &str); 2] = [("SANDBOX_PROVIDER", "wasm"), ("SANDBOX_MAX_SESSIONS", "4")];

fn session(input: &str, args: &[&str]) -> Ran {
    session_with(input, args, &[])
}

pub(crate) fn session_with(input: &str, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = command(&[&["session"], args].concat());
    let mut child = command
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may refuse before it has read everything.
    let _refused_early = child.stdin.take().unwrap().write_all(input.as_bytes());
    finish(child)
}

/// Standard error without what differs from run to run: digests, and how long things took.
fn said(ran: &Ran) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', '\n', ':']);
        let digest = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digest {
            word.replace(bare, "<digest>")
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| {
        let text = line.split(' ').map(word).collect::<Vec<_>>().join(" ");
        match text
            .split_once("tier process, ")
            .map(|(head, rest)| (head, rest.split_once(", exit ")))
        {
            Some((head, Some((_, rest)))) => format!("{head}tier process, <duration>, exit {rest}"),
            _ => text,
        }
    };
    ran.stderr.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// `plimsoll session` on a daemon, with a script that is still being written.
fn piped_to(daemon: &Daemon) -> Child {
    command(&["session", "--daemon", &daemon.url])
        .env("PLIMSOLL_TOKEN", TOKEN)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn each_line_is_a_cell_and_what_one_declares_is_there_for_the_next() {
    let ran = session("let n = 41\n\nconsole.log('next')\nn + 1\n", &[]);
    assert_eq!((ran.code, ran.stdout_text()), (0, "next\n42\n"), "{}", ran.stderr);
    insta::assert_snapshot!(said(&ran), @r"
    plimsoll: session <digest> on wasm, tier process, javascript
    plimsoll: call 1, tier process, <duration>, exit 0, fresh interpreter, record <digest>
    plimsoll: call 2, tier process, <duration>, exit 0, record <digest>
    plimsoll: call 3, tier process, <duration>, exit 0, record <digest>
    plimsoll: session <digest> closed, 3 calls, last record <digest>
    ");
    let nothing = session("", &["--quiet"]);
    assert_eq!(
        (nothing.code, nothing.stdout_text(), nothing.stderr.as_str()),
        (0, "", "")
    );
}

#[test]
fn a_line_of_dashes_makes_blocks_and_files_stay_too() {
    let input = "const fs = require('node:fs')\nfs.writeFileSync('n.txt', '41')\n---\nfunction add(x) {\n  return x + 1\n}\n---\n\
                 add(Number(fs.readFileSync('n.txt', 'utf8')))\n";
    let ran = session(input, &["--quiet"]);
    assert_eq!((ran.code, ran.stdout_text(), ran.stderr.as_str()), (0, "42\n", ""));
}

#[test]
fn a_block_runs_as_soon_as_the_line_after_it_has_come() {
    let mut child = command(&["session", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (
        child.stdin.take().unwrap(),
        BufReader::new(child.stdout.take().unwrap()),
    );
    input.write_all(b"---\n").unwrap();
    for n in 1..=3 {
        writeln!(input, "globalThis.n = {n}\nn * 2\n---").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{}\n", n * 2));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_failing_cell_is_told_and_ends_the_command_only_when_asked_to() {
    let input = "let n = 41\nthrow new Error('boom')\nwhile (true) {}\ntypeof n\n";
    let ran = session(input, &["--timeout", "100ms"]);
    assert_eq!((ran.code, ran.stdout_text()), (0, "'undefined'\n"), "{}", ran.stderr);
    let told = said(&ran);
    assert!(told.contains("Error: boom"), "{told}");
    let ours: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("plimsoll: call "))
        .collect();
    insta::assert_snapshot!(ours.join("\n"), @r"
    plimsoll: call 1, tier process, <duration>, exit 0, fresh interpreter, record <digest>
    plimsoll: call 2, tier process, <duration>, exit 1, record <digest>
    plimsoll: call 3, tier process, <duration>, exit 124 (its timeout ended it), the interpreter is gone with its variables, record <digest>
    plimsoll: call 4, tier process, <duration>, exit 0, fresh interpreter, record <digest>
    ");
    for (cell, code) in [("throw 1", 1), ("while (true) {}", 124), ("1", 0)] {
        let ran = session(
            &format!("{cell}\nconsole.log('after')\n"),
            &["--fail-fast", "--quiet", "--timeout", "100ms"],
        );
        assert_eq!(ran.code, code, "{cell}: {}", ran.stderr);
        assert_eq!(ran.stdout_text().contains("after"), code == 0, "{cell}");
    }
}

#[test]
fn a_timeout_above_the_maximum_is_told_as_lowered() {
    let daemon = Daemon::start_with(&KEEPING);
    let there = ["--daemon", daemon.url.as_str()];
    for place in [&[][..], &there] {
        for (timeout, told) in [("10m", true), ("1s", false)] {
            let args = [place, &["--timeout", timeout]].concat();
            let ran = session_with("1\n", &args, &[("PLIMSOLL_TOKEN", TOKEN)]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            let lowered = ran
                .stderr
                .contains("javascript, timeout 600 s lowered to 30 s, this provider's maximum");
            assert_eq!(lowered, told, "{timeout}: {}", ran.stderr);
        }
    }
}

#[test]
fn what_cannot_be_a_session_is_told_and_nothing_runs() {
    for (args, variables, code, words) in [
        (
            &["--floor", "vm"][..],
            &[][..],
            125,
            "nothing ran (isolation): --floor is vm",
        ),
        (
            &["--provider", "docker"],
            &[("DOCKER_HOST", "unix:///nonexistent/engine.sock")],
            125,
            "nothing ran",
        ),
        (&["--language", "cobol"], &[], 2, "--language"),
        (&["--insecure-http"], &[], 2, "--daemon"),
        (&["--daemon", "nowhere"], &[], 2, "--daemon"),
        (
            &["--daemon", "http://127.0.0.1:1"],
            &[],
            125,
            "nothing ran (environment): ",
        ),
    ] {
        let ran = session_with("console.log(1)\n", args, variables);
        assert_eq!((ran.code, ran.stdout_text()), (code, ""), "{args:?} {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?} {}", ran.stderr);
    }
    let python = session("1\n2\n", &["--language", "python"]);
    assert_eq!(
        (python.code, python.stdout_text(), python.stderr.as_str()),
        (
            125,
            "",
            "plimsoll: nothing ran (environment): --language is python, but a session on provider wasm keeps an interpreter of \
             javascript only; choose another with --language\n"
        )
    );
    let file = session("", &["file.js"]);
    assert_eq!(file.code, 2);
    assert!(file.stderr.contains("plimsoll session < file.js"), "{}", file.stderr);
    let undecodable = {
        let mut child = command(&["session"]).stdin(Stdio::piped()).spawn().unwrap();
        let _refused_early = child.stdin.take().unwrap().write_all(b"\xff\n");
        finish(child)
    };
    assert_eq!(undecodable.code, 125);
    assert!(undecodable.stderr.contains("UTF-8"), "{}", undecodable.stderr);
}

#[test]
fn a_daemon_keeps_the_session_and_its_count_is_compared() {
    let daemon = Daemon::start_with(&KEEPING);
    let args = ["--daemon", daemon.url.as_str(), "--floor", "process"];
    let token = [("PLIMSOLL_TOKEN", TOKEN)];
    let ran = session_with("let n = 41\nn + 1\nprocess.exit(3)\n", &args, &token);
    assert_eq!((ran.code, ran.stdout_text()), (0, "42\n"), "{}", ran.stderr);
    insta::assert_snapshot!(said(&ran), @r"
    plimsoll: session <digest> on wasm, tier process, javascript
    plimsoll: call 1, tier process, <duration>, exit 0, fresh interpreter, record <digest>
    plimsoll: call 2, tier process, <duration>, exit 0, record <digest>
    plimsoll: call 3, tier process, <duration>, exit 1, the interpreter is gone with its variables, record <digest>
    plimsoll: session <digest> closed, 3 calls, as the daemon counts, last record <digest>
    ");
    // Five sessions, one after the other, in four places: each one was closed.
    for _ in 0..5 {
        assert_eq!(session_with("1\n", &args, &token).code, 0);
    }
    let refused = session_with("1\n", &args, &[]);
    assert_eq!(refused.code, 125);
    assert!(refused.stderr.contains("PLIMSOLL_TOKEN"), "{}", refused.stderr);
    let floor = session_with("1\n", &["--daemon", &daemon.url, "--floor", "kernel"], &token);
    assert_eq!(floor.code, 125);
    assert!(floor.stderr.contains("nothing ran (isolation)"), "{}", floor.stderr);
    let python = session_with("1\n", &["--daemon", &daemon.url, "--language", "python"], &token);
    assert_eq!(python.code, 125);
    assert!(
        python
            .stderr
            .starts_with("plimsoll: nothing ran (environment): --language is python"),
        "{}",
        python.stderr
    );
}

#[test]
fn a_session_that_is_over_takes_no_more_cells() {
    let daemon = Daemon::start_with(&[KEEPING.as_slice(), &[("SANDBOX_SESSION_LIFETIME", "1s")]].concat());
    let mut child = piped_to(&daemon);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"---\n'first'\n---\n").unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    input.write_all(b"'second'\n---\n'third'\n---\n").unwrap();
    drop(input);
    let ran = finish(child);
    assert_eq!((ran.code, ran.stdout_text()), (123, "'first'\n"), "{}", ran.stderr);
    let told = "plimsoll: no further cell: the session is over (expired";
    assert!(
        ran.stderr.contains(told) && ran.stderr.contains("cells left"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_refused_cell_is_no_success_and_the_exit_code_knows_what_ran() {
    for (input, code) in [("'\0'\n", 125), ("1\n'\0'\n", 123), ("'\0'\n1\n", 123)] {
        let ran = session(input, &[]);
        assert_eq!(ran.code, code, "{input:?} {}", ran.stderr);
        assert!(
            ran.stderr.contains("nothing ran (request): the cell contains U+0000"),
            "{}",
            ran.stderr
        );
    }
    let ran = session("1\n'\0'\nconsole.log('after')\n", &["--fail-fast"]);
    assert_eq!((ran.code, ran.stdout_text()), (123, "1\n"), "{}", ran.stderr);
}

#[test]
fn after_something_ran_neither_success_nor_nothing_ran_is_told_of_what_did_not_end_well() {
    for (after, calls) in [("", "no clean end"), ("'second'\n---\n", "nothing ran (environment)")] {
        let daemon = Daemon::start_with(&KEEPING);
        let mut child = piped_to(&daemon);
        let (mut input, mut output) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        input.write_all(b"---\n'first'\n---\n").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "'first'\n");
        drop(daemon);
        input.write_all(after.as_bytes()).unwrap();
        drop(input);
        let ran = finish(child);
        assert_eq!(ran.code, 123, "{after}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(calls) && ran.stderr.contains("no clean end"),
            "{after}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_cell_whose_answer_is_lost_is_no_success() {
    let daemon = Daemon::start_with(&KEEPING);
    let mut child = piped_to(&daemon);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"---\nwhile (true) {}\n---\n").unwrap();
    drop(input);
    std::thread::sleep(Duration::from_millis(700));
    drop(daemon);
    let ran = finish(child);
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(ran.stderr.contains("it may have run"), "{}", ran.stderr);
}

#[test]
fn output_that_cannot_be_written_denies_no_answer() {
    let run = |stdout: Stdio, quiet: &[&str]| {
        let mut command = command(&[&["session"], quiet].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"'first'\n'second'\n").unwrap();
        finish(child)
    };
    let full = || {
        Stdio::from(
            fs_err::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into_file(),
        )
    };
    let ran = run(full(), &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let told = said(&ran);
    assert!(
        told.contains("plimsoll: call 2, tier process, <duration>, exit 0"),
        "{told}"
    );
    assert!(told.contains("closed, 2 calls"), "{told}");
    assert_eq!(told.matches("the output could not be written").count(), 2, "{told}");
    let quiet = run(full(), &["--quiet"]);
    assert_eq!(quiet.code, 1);
    assert!(
        quiet.stderr.contains("the output could not be written"),
        "{}",
        quiet.stderr
    );
    // A reader who has gone wants no more of it, as with `run`.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = run(writer.into(), &[]);
    assert_eq!(gone.code, 0, "{}", gone.stderr);
    assert!(gone.stderr.contains("closed, 2 calls"), "{}", gone.stderr);
}

#[test]
fn a_wall_that_was_taken_down_is_told_before_the_first_cell() {
    let variables = [
        ("SANDBOX_DOCKER_SECCOMP", "unconfined"),
        ("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
    ];
    let warning = "plimsoll: SANDBOX_DOCKER_SECCOMP is unconfined: ";
    let ran = session_with("1\n", &["--provider", "docker"], &variables);
    assert!(ran.code == 125 && ran.stderr.starts_with(warning), "{}", ran.stderr);
    for args in [&["--provider", "docker", "--quiet"][..], &["--provider", "wasm"]] {
        let ran = session_with("1\n", args, &variables);
        assert!(!ran.stderr.contains("SECCOMP"), "{args:?} {}", ran.stderr);
    }
}

#[test]
fn a_signal_before_the_first_cell_finds_that_nothing_ran() {
    let mut child = command(&["session"]).stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    (&input).write_all(b"---\n").unwrap();
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("plimsoll: session "), "{line}");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    told.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125), "{line}");
    assert!(line.contains("closed, 0 calls"), "{line}");
    drop(input);
}

#[test]
fn a_daemon_that_keeps_no_sessions_says_so() {
    let daemon = Daemon::start();
    let ran = session_with("1\n", &["--daemon", &daemon.url], &[("PLIMSOLL_TOKEN", TOKEN)]);
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("nothing ran (unsupported)"), "{}", ran.stderr);
}

#[test]
fn an_interrupt_ends_the_cell_and_closes_the_session() {
    let child = command(&["session", "--timeout", "20s"]).stdin(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"---\nconsole.log('begun')\n---\nwhile (true) {}\n---\n")
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let ran = finish(child);
    drop(input);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    let told = said(&ran);
    assert!(
        told.contains("it may have run, there is no checked answer (canceled)"),
        "{told}"
    );
    assert!(told.contains("plimsoll: call 2, no answer, record <digest>"), "{told}");
    assert!(told.contains("closed, 2 calls"), "{told}");
}

#[test]
fn a_second_signal_ends_a_command_whose_close_is_not_answered() {
    // A daemon that keeps a session and then says nothing more: it is stopped, and its connections stay.
    let daemon = Daemon::start_with(&KEEPING);
    let mut child = piped_to(&daemon);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"---\n'first'\n---\n").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    daemon.halt();
    let id = rustix::process::Pid::from_child(&child);
    let begun = Instant::now();
    for _ in 0..2 {
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    let ran = finish(child);
    drop(input);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("plimsoll: no clean end: interrupted before the session was closed"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_signal_while_it_waits_for_a_cell_closes_the_session() {
    let mut child = command(&["session"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"---\nconsole.log('ready')\n---\n").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let ran = finish(child);
    drop(input);
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    assert!(
        said(&ran).contains("plimsoll: interrupted\n") && ran.stderr.contains("closed, 1 call"),
        "{}",
        ran.stderr
    );
}
