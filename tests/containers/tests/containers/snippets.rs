//! Snippets: `node` of the image, one container each.

use std::time::Duration;

use plimsoll_core::{JavaScriptResult, Limit, RunRequest};

use crate::support::{ask, gvisor, javascript, run, snippet, snippet_within};

#[test]
fn a_snippet_runs_in_node_and_its_record_stands() {
    run(async {
        let answer = ask(RunRequest::javascript("console.log(6 * 7)")).await.unwrap();
        let result = javascript(&answer);
        assert_eq!((result.stdout.as_slice(), result.exit_code), (&b"42\n"[..], 0));
        assert_eq!(answer.sandbox, "docker");
        assert_eq!(answer.isolation, if gvisor() { "kernel" } else { "container" });
        assert!(
            answer.environment.starts_with("docker-image:sha256:"),
            "{}",
            answer.environment
        );
    });
}

#[test]
fn exit_codes_pass_through_unchanged() {
    run(async {
        for code in [0, 3, 124, 125, 126, 127, 137] {
            let result = snippet(&format!("process.exit({code})")).await;
            assert_eq!((result.exit_code, result.timed_out), (code, false));
        }
        let thrown = snippet("throw new Error('boom')").await;
        assert_eq!(thrown.exit_code, 1);
        assert!(String::from_utf8_lossy(&thrown.stderr).contains("boom"));
    });
}

#[test]
fn a_program_ends_as_it_does_in_a_node_that_it_starts_itself() {
    const ENDS: [&str; 14] = [
        "process.on('exit', (code) => console.log('bye', code))",
        "process.on('exit', () => { process.exitCode = 3 })",
        "process.on('exit', () => { Promise.resolve().then(() => console.log('micro')) })",
        "process.on('exit', () => { Promise.resolve().then(() => { process.exitCode = 9 }) })",
        "process.on('exit', () => { Promise.resolve().then(() => console.log('no')) }); process.exit()",
        "process.on('exit', () => { Promise.reject(new Error('late')) })",
        "process.on('exit', () => { process.exitCode = 0 }); throw new Error('told')",
        "process.on('exit', () => { throw new Error('in the listener') })",
        "process.on('exit', () => process.on('exit', () => console.log('no'))).on('exit', () => console.log('last'))",
        "process.once('beforeExit', () => { console.log('before'); setTimeout(console.log, 1, 'again') })",
        "process.emit('exit', 0); console.log('still here')",
        "console.log(process.listenerCount('exit'), process.eventNames().includes('exit'))",
        "Array.prototype.flat = () => { throw 1 }; console.log('flat')",
        "const { emit } = process; process.emit = (...all) => (console.log(all[0]), emit.apply(process, all))",
    ];
    run(async {
        for program in ENDS {
            let ours = snippet(program).await;
            let input = serde_json::Value::from(program);
            let plain = snippet(&format!(
                "const {{ spawnSync }} = require('node:child_process');
                 const {{ stdout, stderr, status }} = spawnSync('node', ['-'], {{ input: {input} }});
                 process.stdout.write(stdout); process.stderr.write(stderr); process.exitCode = status;"
            ))
            .await;
            let told = |result: &JavaScriptResult| {
                let [out, err] =
                    [&result.stdout, &result.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
                // Where in node's own file listeners are called from tells how many there are.
                let err = err.replace("(node:events:531:35)", "(node:events:519:28)");
                (out, err, result.exit_code)
            };
            assert_eq!(told(&ours), told(&plain), "{program}");
        }
    });
}

#[test]
fn both_streams_are_bytes_and_the_first_64_kib_are_kept() {
    run(async {
        let result = snippet("process.stdout.write(Buffer.from([0xff, 0xfe, 0, 10])); process.stderr.write('e')").await;
        assert_eq!(
            (result.stdout.as_slice(), result.stderr.as_slice()),
            (&[0xff, 0xfe, 0, 10][..], &b"e"[..])
        );
        let exact = snippet("process.stdout.write('x'.repeat(65536))").await;
        assert_eq!((exact.stdout.len(), exact.stdout_truncated), (65536, false));
        let more = snippet("process.stdout.write('x'.repeat(65537))").await;
        assert_eq!(
            (more.stdout.len(), more.stdout_truncated, more.exit_code),
            (65536, true, 0)
        );
    });
}

#[test]
fn the_time_limit_ends_a_loop_and_keeps_what_it_printed() {
    run(async {
        let answer = snippet_within("console.log('before'); while (true) {}", Duration::from_secs(1)).await;
        let result = javascript(&answer);
        assert_eq!((result.exit_code, result.timed_out), (124, true));
        assert_eq!(result.stdout, b"before\n");
    });
}

#[test]
fn out_of_memory_is_told_as_such_and_a_plain_kill_is_not() {
    run(async {
        let bomb = "const held = []; while (true) held.push(Buffer.alloc(8 << 20, 1));";
        let answer = snippet_within(bomb, Duration::from_secs(20)).await;
        let result = javascript(&answer);
        assert_eq!((result.exit_code, result.timed_out), (137, false), "{result:?}");
        let diagnostics = answer.diagnostics.unwrap();
        assert_eq!((diagnostics.limit_hit, diagnostics.signal), (Some(Limit::Memory), 9));
        let killed = ask(RunRequest::javascript("process.kill(process.pid, 'SIGKILL')"))
            .await
            .unwrap();
        assert_eq!(javascript(&killed).exit_code, 137);
        let diagnostics = killed.diagnostics.unwrap();
        assert_eq!((diagnostics.limit_hit, diagnostics.signal), (None, 9));
    });
}

#[test]
fn the_environment_holds_what_the_image_and_the_runtime_declare_and_nothing_else() {
    run(async {
        let result =
            snippet("console.log(JSON.stringify(Object.keys(process.env).sort())); console.log(process.env.HOME)")
                .await;
        let text = String::from_utf8(result.stdout).unwrap();
        let (names, home) = text.trim().split_once('\n').unwrap();
        assert_eq!(home, "/");
        let names: Vec<String> = serde_json::from_str(names).unwrap();
        for name in ["HOME", "HOSTNAME", "PATH"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        assert!(
            !names
                .iter()
                .any(|name| name.contains("PLIMSOLL") || name.contains("HOST_API")),
            "{names:?}"
        );
    });
}
