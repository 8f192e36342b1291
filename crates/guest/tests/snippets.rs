//! Snippets: what a program sees, what comes back, and that a waiting `node` is no different from a fresh one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests start sandboxes and read files")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::SNIPPET_STREAM_CAP;
use plimsoll_guest_messages::{End, GuestMessage, Plan, Prepare, SnippetEnd};
use support::{Sandbox, code, cold, pooled, snippet, text};

fn out(end: &SnippetEnd) -> String {
    assert_eq!(text(&end.stderr.bytes), "");
    assert_eq!(end.end, End::Exited(0));
    text(&end.stdout.bytes)
}

#[test]
fn a_waiting_node_runs_the_program_and_reports_its_end() {
    let end = pooled("console.log(6*7); console.error('e'); process.exitCode = 5", "", 20_000);
    assert_eq!((end.end, end.timed_out), (End::Exited(5), false));
    assert_eq!(
        (text(&end.stdout.bytes), text(&end.stderr.bytes)),
        ("42\n".into(), "e\n".into())
    );
    assert!(!end.stdout.truncated() && end.duration_ms < 20_000);
}

#[test]
fn exit_codes_of_engines_and_shells_pass_through() {
    for exit in [0, 1, 124, 125, 126, 127, 137, 255] {
        let end = pooled(&format!("process.exit({exit})"), "", 20_000);
        assert_eq!((end.end, end.timed_out), (End::Exited(exit), false));
    }
    let end = pooled("process.kill(process.pid, 'SIGKILL'); for (;;);", "", 20_000);
    assert_eq!((end.end, end.timed_out), (End::Signaled(9), false));
}

/// A program that prints all that it can see of how it was started.
const LOOK_AROUND: &str = r#"
const fs = require('fs'), os = require('os');
console.log(JSON.stringify({
  argv: process.argv, execArgv: process.execArgv, cwd: process.cwd(), env: process.env, title: process.title,
  globals: Object.getOwnPropertyNames(globalThis), cache: Object.keys(require.cache), main: require.main === undefined,
  modulePaths: Object.keys(require('module')._pathCache), children: module.children.length, file: __filename,
  paths: module.paths, parent: module.parent === undefined, line: new Error('x').stack.split('\n')[1],
  fds: fs.readdirSync('/proc/self/fd').filter((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd) } catch {} })
    .map((fd) => fd + fs.readlinkSync('/proc/self/fd/' + fd).replace(/\d+/g, 'N')),
  tmp: fs.readdirSync('/tmp'), shm: fs.readdirSync('/dev/shm'), listeners: process.eventNames().map(String),
  stdin: process.stdin.eventNames().map(String), ended: process.stdin.readableEnded, umask: process.umask(),
  signals: fs.readFileSync('/proc/self/status', 'utf8').match(/^Sig(Blk|Ign):.*$/mg), uid: process.getuid(),
  session: fs.readFileSync('/proc/self/stat', 'utf8').replace(/.*\) /, '').split(' ').slice(1, 4),
  oom: fs.readFileSync('/proc/self/oom_score_adj', 'utf8').trim(), ids: [process.pid, process.ppid],
  strict: (function () { return this === undefined })(), home: os.homedir(), loaded: process.moduleLoadList.length,
}))
"#;

#[test]
fn a_pooled_and_a_cold_program_see_the_same() {
    let (pooled, cold) = (
        out(&pooled(LOOK_AROUND, "", 20_000)),
        out(&cold(LOOK_AROUND, "", 20_000)),
    );
    assert_eq!(pooled, cold);
}

#[test]
fn a_program_sees_nothing_of_how_it_was_started() {
    let seen = out(&pooled(LOOK_AROUND, "", 20_000));
    for expected in [
        r#""argv":["/usr/local/bin/node","-"],"execArgv":[],"cwd":"/""#,
        r#""env":{"HOME":"/","HOSTNAME":"box","PATH":"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}"#,
        r#""cache":[],"main":true,"modulePaths":[],"children":0,"file":"[stdin]""#,
        r#""line":"    at [stdin]:7:"#,
        r#""tmp":[]"#,
        r#""signals":["SigBlk:\t0000000000000000","#,
        r#""oom":"1000","#,
    ] {
        assert!(seen.contains(expected), "{expected} not in {seen}");
    }
    // Nothing of the engine's variables, and descriptor 3 is closed.
    assert!(
        !seen.contains("LEAK_OF_THE_ENGINE") && !seen.contains("\"3socket"),
        "{seen}"
    );
}

/// What plain `node -` answers to this program, in an environment like the sandbox's.
fn plain(program: &str) -> (Option<i32>, String, String) {
    use std::io::Write;
    let mut node = std::process::Command::new(support::node())
        .arg("-")
        .env_clear()
        .current_dir("/")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    node.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_means_what_node_reading_it_means() {
    let programs = [
        "\"use strict\"; console.log((function () { return this })() === undefined)",
        "console.log((function () { return this })() === globalThis)",
        "#!/usr/bin/env node\nconsole.log(1)",
        "import os from 'os'; console.log(typeof os.cpus, import.meta.url, typeof require)",
        "export const a = 1; console.log(a)",
        "const fs = require('fs'); const x = await Promise.resolve(7); console.log(x)",
        "console.log(await Promise.resolve(7))",
        "throw new Error('boom')",
        "let x = ;",
        "\n\n  nothing.here",
        "console.log(__filename, __dirname, module.id, typeof exports, arguments.length)",
        "await new Promise(() => {})",
        "Promise.reject(new TypeError('late'))",
        "console.log('a'); console.error('b'); process.exit(3)",
        "var top = 1; console.log(globalThis.top)",
        "console.log(Object.getOwnPropertyNames(globalThis).join())",
        "process.stdin.on('data', () => {}).on('end', () => console.log('end')); setTimeout(() => console.log('late'), 9)",
        "const { Worker } = require('worker_threads'); new Worker('console.log(process.execArgv.length >= 0, \
         require(\"worker_threads\").isMainThread)', { eval: true }).on('exit', (code) => console.log(code))",
        "const c = require('child_process'); console.log(c.execFileSync(process.execPath, ['-p', '6*7']).toString())",
        "\u{feff}console.log('bom')",
        "",
        "console.log('ä€𝄞', 'é'.length)",
        "return 5",
        "console.log(new Error('where').stack)",
    ];
    let mut differs = Vec::new();
    for program in programs {
        let end = pooled(program, "", 20_000);
        let ours = (
            Some(end.end.shell_code()),
            text(&end.stdout.bytes),
            text(&end.stderr.bytes),
        );
        let plain = plain(program);
        if ours != plain {
            differs.push(format!("{program:?}\n  plain {plain:?}\n  ours  {ours:?}"));
        }
    }
    assert!(differs.is_empty(), "{}", differs.join("\n"));
}

#[test]
fn the_prelude_runs_in_the_programs_realm_before_it_pooled_and_cold() {
    let prelude =
        "globalThis.host = { seen: typeof require, args: process.argv.length }; process.env.HOST_API_SOCKET = '/s'";
    let program = "'use strict'; console.log(host, process.env.HOST_API_SOCKET, new Error('x').stack.split('\\n')[1])";
    let expected = "{ seen: 'undefined', args: 2 } /s     at [stdin]:1:";
    for run in [pooled, cold] {
        let seen = out(&run(program, prelude, 20_000));
        assert!(seen.starts_with(expected), "{seen}");
    }
}

#[test]
fn a_prelude_and_a_program_longer_than_any_pipe_arrive_whole() {
    let prelude = format!("globalThis.a = {:?}.length", "p".repeat(700_000));
    let program = format!("console.log(a, {:?}.length)", "q".repeat(700_000));
    for run in [pooled, cold] {
        assert_eq!(out(&run(&program, &prelude, 20_000)), "700000 700000\n");
    }
}

#[test]
fn a_thread_of_the_program_starts_like_any_other() {
    let program = "const { Worker } = require('worker_threads');\
        new Worker('console.log(JSON.stringify([process.execArgv, Object.keys(require.cache)]))', { eval: true })\
        .on('error', (error) => console.log('error', error.message)).on('exit', (code) => console.log(code));";
    assert_eq!(out(&pooled(program, "", 20_000)), "[[],[]]\n0\n");
}

#[test]
fn each_stream_is_kept_to_its_cap_and_counted_whole() {
    let cap = usize::try_from(SNIPPET_STREAM_CAP).unwrap();
    let program = format!(
        "const fs = require('fs'); fs.writeSync(2, 'x'.repeat({cap})); \
         for (let i = 0; i < 100; i++) {{ let b = Buffer.alloc({cap}, 'y'); while (b.length) b = b.subarray(fs.writeSync(1, b)) }}"
    );
    let end = pooled(&program, "", 20_000);
    assert_eq!((end.stderr.bytes.len(), end.stderr.truncated()), (cap, false));
    assert_eq!(
        (end.stdout.bytes.len(), end.stdout.produced),
        (cap, 100 * SNIPPET_STREAM_CAP)
    );
    assert_eq!((end.stdout.truncated(), end.end), (true, End::Exited(0)));
}

#[test]
fn a_program_past_its_time_is_killed_and_keeps_its_output() {
    let began = Instant::now();
    let end = pooled("console.log('before'); for (;;);", "", 600);
    assert!(end.timed_out, "{end:?}");
    assert_eq!(
        (end.end, text(&end.stdout.bytes)),
        (End::Signaled(9), "before\n".into())
    );
    assert!((600..2_000).contains(&end.duration_ms), "{end:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn nothing_that_a_program_started_outlives_it() {
    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    let program = "const c = require('child_process'); \
        for (const o of [{}, { detached: true }]) c.spawn('sh', ['-c', 'trap \"\" TERM HUP; (sleep 999 & sleep 999) & sleep 999'], \
        { ...o, stdio: 'inherit' }); setTimeout(() => { console.log('done'); process.exit(0) }, 100)";
    sandbox.send(snippet(program, "", 20_000));
    sandbox.expect_started();
    let end = sandbox.snippet_end();
    assert_eq!(text(&end.stdout.bytes), "done\n");
    assert!(end.limits.most_tasks >= 4, "{end:?}");
    assert!(end.duration_ms < 2_000, "{end:?}");
    assert_eq!(Sandbox::inhabitants(sandbox.host_pid()), [sandbox.host_pid()]);
}

#[test]
fn a_heartbeat_comes_every_second_of_a_call_and_none_before() {
    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    std::thread::sleep(Duration::from_millis(1_300));
    sandbox.send(snippet("setTimeout(() => {}, 2500)", "", 20_000));
    let mut beats = 0;
    loop {
        match sandbox.next().expect("a message") {
            GuestMessage::Heartbeat => beats += 1,
            GuestMessage::SnippetEnd(_) => break,
            _ => assert_eq!(beats, 0),
        }
    }
    assert_eq!(beats, 2);
}

#[test]
fn a_waiting_node_that_dies_is_a_fault_and_never_a_result() {
    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    let node = Sandbox::inhabitants(sandbox.host_pid())
        .into_iter()
        .find(|pid| *pid != sandbox.host_pid())
        .unwrap();
    std::process::Command::new("kill")
        .args(["-9", &node.to_string()])
        .status()
        .unwrap();
    let fault = sandbox.next_word();
    assert!(
        matches!(&fault, Some(GuestMessage::Fault(f)) if f.text.ends_with("signal 9")),
        "{fault:?}"
    );
    assert_eq!(code(sandbox.wait()), Some(3));
}

#[test]
fn an_image_whose_node_options_break_node_is_a_fault() {
    for options in ["--require /nowhere.js", "--no-such-option"] {
        let mut sandbox = Sandbox::open_with(Prepare::Snippet, &[("NODE_OPTIONS", options)], 100);
        sandbox.send(snippet("console.log(1)", "", 20_000));
        let fault = sandbox.next_word();
        assert!(matches!(fault, Some(GuestMessage::Fault(_))), "{fault:?}");
    }
    let mut sandbox = Sandbox::open_with(Prepare::Snippet, &[("PATH", "/work")], 100);
    let fault = sandbox.next_word();
    assert!(
        matches!(&fault, Some(GuestMessage::Fault(f)) if f.text.starts_with("node cannot be started")),
        "{fault:?}"
    );
}

#[test]
fn the_images_variables_reach_the_program_in_their_order() {
    let env = [
        ("A", "1"),
        ("PATH", "/usr/local/bin:/bin"),
        ("A", "2"),
        ("HOME", "/tmp"),
        ("EMPTY", ""),
    ];
    let mut sandbox = Sandbox::open_with(Prepare::Snippet, &env, 1_000);
    sandbox.send(snippet("console.log(JSON.stringify(process.env))", "", 20_000));
    sandbox.expect_ready();
    sandbox.expect_started();
    let expected = r#"{"A":"2","EMPTY":"","HOME":"/tmp","HOSTNAME":"box","PATH":"/usr/local/bin:/bin"}"#;
    assert_eq!(out(&sandbox.snippet_end()), format!("{expected}\n"));
}

#[test]
fn a_second_plan_is_a_violation() {
    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.send(snippet("", "", 20_000));
    sandbox.expect_ready();
    sandbox.expect_started();
    sandbox.snippet_end();
    sandbox.send(snippet("", "", 20_000));
    assert_eq!(code(sandbox.wait()), Some(2));

    let mut sandbox = Sandbox::open(Prepare::Snippet);
    sandbox.expect_ready();
    sandbox.send(Plan::Project(support::steps(&["true"])));
    assert_eq!(code(sandbox.wait()), Some(2));
}
