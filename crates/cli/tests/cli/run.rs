//! `plimsoll run` in this process: what goes in, what comes out, and the exit code that says which.

use std::io::Read as _;

use crate::support::{command, finish, plimsoll, run, run_with};

#[test]
fn a_program_prints_and_one_line_tells_about_it() {
    let ran = run("console.log(6*7)", &[]);
    assert_eq!((ran.code, ran.stdout_text()), (0, "42\n"));
    insta::assert_snapshot!(ran.stderr_named(), @"plimsoll: tier process, <duration>, exit 0, record <digest>");
}

#[test]
fn a_file_runs_like_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.js");
    fs_err::write(&file, "console.log('from a file')").unwrap();
    let ran = plimsoll(&["run", "--quiet", file.to_str().unwrap()]);
    assert_eq!(
        (ran.code, ran.stdout_text(), ran.stderr.as_str()),
        (0, "from a file\n", "")
    );
}

#[test]
fn the_exit_code_is_the_guests() {
    assert_eq!(run("process.exit(3)", &["-q"]).code, 3);
    let failed = run("throw new Error('no luck')", &["--quiet"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("Error: no luck"), "{}", failed.stderr);
}

#[test]
fn every_byte_of_both_streams_passes_unaltered() {
    let program = "const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));\
                   process.stdout.write(all); process.stdout.write('\\n\\n'); process.stderr.write('no end of line');";
    let ran = run(program, &["--quiet"]);
    let mut expected: Vec<u8> = (0..=255).collect();
    expected.extend(b"\n\n");
    assert_eq!(ran.stdout, expected);
    assert_eq!(ran.stderr, "no end of line");
}

#[test]
fn our_line_follows_an_unfinished_line_of_either_stream_in_one_place() {
    for (program, text) in [
        (
            "process.stdout.write('unfinished')",
            "unfinished\nplimsoll: tier process, ",
        ),
        ("console.log('done')", "done\nplimsoll: tier process, "),
    ] {
        // One pipe for both streams, as with `2>&1`.
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = command(&["run", "-"]);
        command.stdin(std::process::Stdio::piped());
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // It holds the ends the child writes to.
        drop(command);
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), program.as_bytes()).unwrap();
        let mut both = String::new();
        reader.read_to_string(&mut both).unwrap();
        assert!(both.starts_with(text), "{both}");
        child.wait().unwrap();
    }
    // Apart, neither gets a byte of the other's.
    let ran = run("process.stdout.write('unfinished')", &[]);
    assert_eq!(ran.stdout_text(), "unfinished");
    assert!(ran.stderr.starts_with("plimsoll: tier process, "), "{}", ran.stderr);
}

#[test]
fn the_operators_minimum_holds_for_a_run_in_this_process() {
    let program = "console.log('never')";
    for minimum in ["vm", " Container "] {
        let refused = run_with(program, &[], &[("SANDBOX_MIN_ISOLATION", minimum)]);
        assert_eq!((refused.code, refused.stdout_text()), (125, ""));
        let tier = minimum.trim().to_lowercase();
        for words in [
            "nothing ran (isolation)",
            &format!("SANDBOX_MIN_ISOLATION={tier:?}"),
            "process",
        ] {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
    }
    // A floor of the run's own changes nothing about it.
    let floor = run_with(program, &["--floor", "process"], &[("SANDBOX_MIN_ISOLATION", "vm")]);
    assert_eq!(floor.code, 125);
    let object = run_with(program, &["--json", "-q"], &[("SANDBOX_MIN_ISOLATION", "kernel")]);
    let error: serde_json::Value = serde_json::from_slice(&object.stdout).unwrap();
    assert_eq!(
        (&error["code"], &error["details"][0]["value"]),
        (&"failed_precondition".into(), &"CAU".into())
    );
    assert_eq!(run_with("1", &["-q"], &[("SANDBOX_MIN_ISOLATION", "process")]).code, 0);
    let unread = run_with(program, &[], &[("SANDBOX_MIN_ISOLATION", "none")]);
    assert_eq!((unread.code, unread.stdout_text()), (125, ""));
}

#[test]
fn a_wall_that_the_environment_takes_down_is_told_before_the_run() {
    let variables = [
        ("SANDBOX_DOCKER_SECCOMP", "unconfined"),
        ("DOCKER_HOST", "unix:///nonexistent/engine.sock"),
    ];
    let warned = |args: &[&str]| {
        let ran = run_with("1", args, &variables);
        assert_eq!(ran.code, 125, "{}", ran.stderr);
        ran.stderr
            .starts_with("plimsoll: SANDBOX_DOCKER_SECCOMP is unconfined: ")
    };
    assert!(warned(&["--provider", "docker"]));
    assert!(!warned(&["--provider", "docker", "--quiet"]));
}

#[test]
fn a_look_at_the_host_is_not_a_run_of_somebodys_program() {
    let doctor = finish(command(&["doctor"]).env("SANDBOX_MIN_ISOLATION", "vm").spawn().unwrap());
    assert_eq!((doctor.code, doctor.stderr.as_str()), (0, ""));
}

#[test]
fn an_error_that_node_has_no_better_word_for_gets_a_hint() {
    let told = [
        "import fs from 'fs';",
        "export const a = 1;",
        "console.log(import.meta.url);",
        "return 1;",
        "const n: number = 1;",
        "let n = 1 as number;",
        "host.get('/berths');",
        "throw new Error('mine');",
    ]
    .map(|program| {
        let ran = run(program, &[]);
        assert_eq!(ran.code, 1, "{program}");
        assert!(run(program, &["-q"]).stderr.lines().all(|line| !line.contains("hint")));
        let lines: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("plimsoll: hint"))
            .collect();
        format!("{program}\n{}", lines.join("\n"))
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    import fs from 'fs';
    plimsoll: hint: the program is a script, where import statements do not work; write const name = require("name")
    export const a = 1;
    plimsoll: hint: the program is a script, which exports nothing; leave the word export out and print the result
    console.log(import.meta.url);
    plimsoll: hint: the program is a script, where there is no import.meta; __filename and __dirname are there
    return 1;
    plimsoll: hint: a program returns nothing outside a function; print the result, and end early with process.exit()
    const n: number = 1;
    plimsoll: hint: if this is TypeScript: a program is JavaScript, where types are no syntax; leave them out, or compile it before
    let n = 1 as number;
    plimsoll: hint: if this is TypeScript: a program is JavaScript, where types are no syntax; leave them out, or compile it before
    host.get('/berths');
    plimsoll: hint: the run has no grant, so the program has no client to call an API with; give it one with --grant
    throw new Error('mine');
    "#);
}

#[test]
fn the_page_lists_the_locales_there_are_and_others_are_refused() {
    const PAGE: &str = include_str!("../../../../docs/wasm-environment.md");
    let row = PAGE.lines().find(|line| line.starts_with("| `en`, ")).unwrap();
    let mut listed: Vec<&str> = row.split('|').nth(1).unwrap().trim().split(", ").collect();
    listed.iter_mut().for_each(|tag| *tag = tag.trim_matches('`'));
    listed.sort_unstable();
    for tag in ["ar-EG", "pl-PL", "ru-RU", "ko-KR", "de-AT", "pt-PT", "xx-XX"] {
        let program = format!(
            "const told = (act) => {{ try {{ return String(act()); }} catch (error) {{ return error.message; }} }};
             console.log(told(() => (1).toLocaleString('{tag}')));
             console.log(told(() => new Date(0).toLocaleDateString('{tag}')));
             console.log(told(() => 'a'.localeCompare('b', '{tag}')));
             console.log(told(() => new Intl.PluralRules('{tag}').select(2)));
             console.log(JSON.stringify(Intl.NumberFormat.supportedLocalesOf(['{tag}', 'de-DE'])));
             console.log(new Intl.NumberFormat(['{tag}', 'de-DE']).resolvedOptions().locale);"
        );
        let ran = run(program, &["-q"]);
        let lines: Vec<&str> = ran.stdout_text().lines().collect();
        assert_eq!(lines[4..], ["[\"de-DE\"]", "de-DE"], "{tag}");
        for line in &lines[..4] {
            let names = line.strip_prefix(&format!("Unsupported locale: {tag} (this sandbox formats for "));
            let mut served: Vec<&str> = names.unwrap().trim_end_matches(')').split(", ").collect();
            served.sort_unstable();
            assert_eq!(served, listed, "docs/wasm-environment.md, Locales");
        }
    }
}

#[test]
fn our_line_starts_in_a_row_of_its_own() {
    let ran = run("process.stderr.write('unfinished')", &[]);
    assert!(
        ran.stderr.starts_with("unfinished\nplimsoll: tier process, "),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_timeout_is_the_exit_code_124_and_the_line_says_so() {
    let ran = run("console.log('before'); while (true) {}", &["--timeout", "50ms"]);
    assert_eq!((ran.code, ran.stdout_text()), (124, "before\n"));
    assert!(ran.stderr.contains("exit 124 (its timeout ended it)"), "{}", ran.stderr);
}

#[test]
fn dropped_output_is_told_with_its_numbers() {
    let ran = run("process.stdout.write('x'.repeat(100000))", &[]);
    assert_eq!((ran.code, ran.stdout.len()), (0, 65_536));
    assert!(
        ran.stderr
            .contains("stdout truncated to 65536 of 100000 bytes, limit hit: output"),
        "{}",
        ran.stderr
    );
}

#[test]
fn memory_beyond_the_limit_is_named() {
    let bomb = "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1));";
    let ran = run_with(bomb, &[], &[("SANDBOX_MEMORY_MB", "64")]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("limit hit: memory"), "{}", ran.stderr);
}

#[test]
fn a_floor_that_is_not_met_runs_nothing() {
    let ran = run("console.log('never')", &["--floor", "vm"]);
    assert_eq!((ran.code, ran.stdout_text()), (125, ""));
    insta::assert_snapshot!(ran.stderr);
    assert_eq!(run("1", &["--floor", "process", "-q"]).code, 0);
}

#[test]
fn json_is_the_whole_answer_and_nothing_else() {
    let ran = run("console.log(6*7)", &["--json", "--quiet"]);
    let answer: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(answer["sandbox"], "wasm");
    assert_eq!(answer["isolation"], "process");
    assert_eq!(answer["javascript"]["stdout"], "NDIK");
    assert_eq!(answer["record"]["version"], 4);
    assert_eq!(answer["record"]["recordSha256"].as_str().unwrap().len(), 64);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(run("process.exit(9)", &["--json", "--quiet"]).code, 9);
}

#[test]
fn a_refusal_in_json_is_a_connect_error_object() {
    let ran = run("1", &["--json", "--quiet", "--floor", "kernel"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (125, ""));
    let error: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(error["code"], "failed_precondition");
    // Reason 5, isolation.
    assert_eq!(error["details"][0]["type"], "plimsoll.v1.NotDispatched");
    assert_eq!(error["details"][0]["value"], "CAU");
}

#[test]
fn what_cannot_be_read_runs_nothing() {
    for (program, words) in [
        (vec![0xff, 0xfe], "not UTF-8"),
        (vec![b' '; 262_145], "over 262144 bytes"),
        (Vec::new(), "empty"),
        (b"1\0".to_vec(), "U+0000"),
    ] {
        let ran = run(program, &[]);
        assert_eq!(ran.code, 125, "{words}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("nothing ran (request)") && ran.stderr.contains(words),
            "{}",
            ran.stderr
        );
    }
    let missing = plimsoll(&["run", "/nonexistent/program.js"]);
    assert_eq!(missing.code, 125);
    assert!(missing.stderr.contains("/nonexistent/program.js"), "{}", missing.stderr);
    // 262,144 bytes are allowed.
    assert_eq!(run(vec![b' '; 262_144], &["-q"]).code, 0);
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for args in [
        &["run"][..],
        &["run", "-", "--floor", "none"],
        &["run", "-", "--floor", "Kernel"],
        &["run", "-", "--timeout", "30"],
        &["run", "-", "--timeout", "-1s"],
        &["run", "-", "--provider", "dokcer"],
        &["run", "-", "--provider", "wasm", "--daemon", "http://127.0.0.1:1"],
        &["run", "-", "--insecure-http"],
        &["run", "-", "--token", "x"],
        &["nosuch"],
        &["serve", "--nosuch"],
    ] {
        let ran = plimsoll(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_environment_chooses_the_provider_and_the_option_wins() {
    let refused = run_with("1", &[], &[("SANDBOX_PROVIDER", "dokcer")]);
    assert_eq!(refused.code, 125);
    insta::assert_snapshot!(refused.stderr);
    assert_eq!(
        run_with("1", &["--provider", "wasm", "-q"], &[("SANDBOX_PROVIDER", "docker")]).code,
        0
    );
    let pids = run_with("1", &[], &[("SANDBOX_PIDS", "64")]);
    assert_eq!(pids.code, 125);
    assert!(pids.stderr.contains("SANDBOX_PIDS"), "{}", pids.stderr);
}

#[test]
fn a_reader_who_goes_away_is_no_crash() {
    let mut child = command(&["run", "--quiet", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"console.log('x'.repeat(60000)); process.exitCode = 7").unwrap();
    drop(stdin);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(7), ""));
}

#[test]
fn two_runs_of_one_program_differ_in_nothing() {
    let program = "console.log(Date.now(), Math.random(), crypto.randomUUID())";
    assert_eq!(run(program, &["-q"]).stdout, run(program, &["-q"]).stdout);
}
