//! Steps: what they share, in which order they run, how they end, and who is refused.

use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{Payload, ProjectOutcome, Reason, RunError, RunRequest, RunResult};
use plimsoll_sandbox::{RunContext, Sandbox};
use tokio_util::sync::CancellationToken;

use super::support::*;

#[tokio::test]
async fn steps_share_files_and_nothing_else_and_artifacts_come_back() {
    let (result, outcome) = outcome(
        &provider(),
        project(
            &[
                ("src/one.js", "require('fs').writeFileSync('out.bin', Buffer.from([255, 0, 10])); globalThis.x = 1; console.log('one')"),
                ("src/two.mjs", "import { readFileSync } from 'node:fs'; console.log(typeof x, readFileSync('out.bin').length)"),
            ],
            &["node src/one.js", "node src/two.mjs"],
            &["out.bin", "src", "missing", "src/one.js"],
        ),
    )
    .await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    assert_eq!(result.outcome_detail, "");
    let told: Vec<_> = result
        .steps
        .iter()
        .map(|step| (&*step.command, step.exit_code, step.stdout_text().into_owned()))
        .collect();
    assert_eq!(
        told,
        [
            ("node src/one.js", 0, "one\n".to_owned()),
            ("node src/two.mjs", 0, "undefined 3\n".to_owned())
        ]
    );
    let artifacts: Vec<_> = result
        .artifacts
        .iter()
        .map(|one| (&*one.path, one.content.len()))
        .collect();
    assert_eq!(artifacts, [("out.bin", 3), ("src/one.js", 103)]);
    assert_eq!(result.artifacts[0].content, [255, 0, 10]);
    assert!(!result.artifacts_truncated);
    assert!(outcome.environment.starts_with("quickjs-wasm:sha256:"));
    assert_eq!(outcome.diagnostics.stdout_bytes, 4 + 12);
}

#[tokio::test]
async fn a_first_step_that_is_not_node_and_a_file_is_refused_before_anything_runs() {
    let provider = provider();
    for (step, named) in [
        ("ls", "does not begin with `node`"),
        ("npm test", "does not begin with `node`"),
        ("node", "names no file"),
        ("node --test a.js", "`--test`"),
        ("node a.js > out", "`>`"),
        ("", "does not begin with `node`"),
    ] {
        let asked = project(&[("a.js", "")], &[step, "node a.js"], &[]);
        let foreseen = provider.never_runs(&Payload::Project(asked.clone()));
        let refusal = refused(attempt(&provider, asked, 0).await.unwrap_err());
        assert_eq!(foreseen.as_ref(), Some(&refusal), "told before admission as after it");
        assert_eq!(refusal.reason(), Reason::Unsupported);
        let text = refusal.to_string();
        assert!(
            text.contains(named) && text.contains("`node FILE [arguments]`"),
            "{text}"
        );
    }
    // A later step fails when it is reached, and not before.
    let begins = project(&[("a.js", "")], &["node a.js", "ls"], &[]);
    assert_eq!(provider.never_runs(&Payload::Project(begins)), None);
}

#[tokio::test]
async fn a_later_step_of_another_form_fails_with_127_and_says_what_can_run() {
    let result = result(
        &[("a.js", "require('fs').writeFileSync('a.txt', 'a')")],
        &["node a.js", "ls", "node a.js"],
        &["a.txt"],
    )
    .await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    let codes: Vec<_> = result.steps.iter().map(|step| step.exit_code).collect();
    assert_eq!(codes, [0, 127]);
    assert!(result.steps[1].stderr_text().contains("`node FILE [arguments]`"));
    assert_eq!(result.artifacts.len(), 1);
}

#[tokio::test]
async fn the_first_failing_step_is_the_last_and_artifacts_are_captured_all_the_same() {
    let files = [
        ("a.js", "console.log(process.argv[2])"),
        ("b.js", "process.exitCode = 3; console.error('no')"),
    ];
    let result = result(&files, &["node a.js x", "node b.js", "node a.js y"], &["a.js"]).await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    assert_eq!(result.steps.len(), 2);
    assert_eq!((result.steps[1].exit_code, &*result.steps[1].stderr), (3, &b"no\n"[..]));
    assert_eq!(result.artifacts.len(), 1);
}

#[tokio::test]
async fn all_steps_have_one_time_limit() {
    let spin = "const end = Number(process.argv[2]); for (let i = 0; i < end; i++);";
    let request = project(
        &[("a.js", "console.log('before'); while (true) {}"), ("b.js", spin)],
        &["node b.js 1", "node a.js", "node b.js 1"],
        &["a.js"],
    );
    let began = Instant::now();
    let outcome = attempt(&provider(), request, 300).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    let RunResult::Project(result) = outcome.result else {
        panic!("{outcome:?}")
    };
    assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT);
    assert!(
        result.outcome_detail.starts_with("step 2 "),
        "{}",
        result.outcome_detail
    );
    assert_eq!(result.steps.len(), 2);
    let last = &result.steps[1];
    assert_eq!(
        (last.exit_code, last.timed_out, &*last.stdout),
        (124, true, &b"before\n"[..])
    );
    assert_eq!(result.artifacts.len(), 1);
}

#[tokio::test]
async fn arguments_reach_the_program_as_a_shell_would_hand_them_over() {
    let files = [(
        "a b.js",
        "console.log(JSON.stringify(process.argv)); console.log(process.cwd(), __filename, __dirname)",
    )];
    let told = printed(&files, "node 'a b.js' \"two words\" '' --x=1 it\\'s").await;
    assert_eq!(
        told,
        "[\"/usr/bin/node\",\"/work/a b.js\",\"two words\",\"\",\"--x=1\",\"it's\"]\n/work /work/a b.js /work\n"
    );
}

#[tokio::test]
async fn a_step_ends_as_a_program_of_node_ends() {
    for (code, exit) in [
        ("await new Promise(() => {})", 13),
        ("process.exit(7)", 7),
        ("process.on('exit', (code) => { process.exitCode = code + 2 })", 2),
        ("Promise.reject(new Error('x'))", 1),
        ("setTimeout(() => process.exit(4), 10000)", 4),
        ("process.on('uncaughtException', () => process.exit(9)); throw 1", 9),
    ] {
        let result = result(&[("a.mjs", code)], &["node a.mjs"], &[]).await;
        assert_eq!(
            (result.outcome, result.steps[0].exit_code),
            (ProjectOutcome::COMPLETED, exit),
            "{code}"
        );
    }
}

#[tokio::test]
async fn relative_paths_follow_the_work_directory() {
    let told = printed(
        &[("in/a.txt", "deep"), ("a.js", "
            const fs = require('fs');
            console.log(fs.readFileSync('in/a.txt', 'utf8'), fs.readdirSync('.').join(), fs.readdirSync('/').join());
            process.chdir('in');
            console.log(process.cwd(), fs.readFileSync('a.txt', 'utf8'), require('path').resolve('x'), fs.existsSync('/work/in/a.txt'));
            try { process.chdir('nowhere') } catch (error) { console.log(error.message) }
            fs.writeFileSync('/tmp/t', 't'); fs.writeFileSync('../up', 'u');
            console.log(fs.readdirSync('/tmp').join(), fs.readdirSync('/work').join());
            try { fs.rmSync('/work', { recursive: true }) } catch (error) { console.log(error.code) }
        ")],
        "node a.js",
    )
    .await;
    assert_eq!(
        told,
        "deep a.js,in tmp,work\n/work/in deep /work/in/x true\nENOENT: no such file or directory, chdir '/work/in' -> 'nowhere'\nt a.js,in,up\nEBUSY\n"
    );
}

#[tokio::test]
async fn files_that_cannot_be_written_end_the_project_before_any_step() {
    let result = result(&[("a", ""), ("a/b", "")], &["node a"], &["a"]).await;
    assert_eq!(result.outcome, ProjectOutcome::SETUP_FAILED);
    assert!(
        result
            .outcome_detail
            .starts_with("file \"a/b\" cannot be written: ENOTDIR"),
        "{}",
        result.outcome_detail
    );
    assert!(result.steps.is_empty() && result.artifacts.is_empty());
}

#[tokio::test]
async fn a_project_states_what_it_ran_in_and_grants_are_unsupported() {
    let provider = provider();
    let evidence = provider.evidence();
    let environment = evidence.environments.project.clone().unwrap();
    assert_eq!(Some(&environment), evidence.environments.javascript.as_ref());
    assert_eq!(environment.languages, ["javascript"]);
    let mut granted = project(&[], &["node a.js"], &[]);
    granted.grant_profile = "profile".to_owned();
    let refusal = refused(attempt(&provider, granted, 0).await.unwrap_err());
    assert_eq!(refusal.reason(), Reason::Unsupported);
}

#[tokio::test]
async fn a_caller_who_leaves_ends_a_project_without_an_answer() {
    let provider = provider();
    let request = RunRequest {
        protocol: PROTOCOL,
        payload: Some(Payload::Project(project(
            &[("a.js", "while (true) {}")],
            &["node a.js"],
            &[],
        ))),
        ..RunRequest::default()
    };
    let call = admitted(&provider, request).unwrap();
    let context = RunContext {
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled: CancellationToken::new(),
        broker: None,
    };
    let cancelled = context.cancelled.clone();
    let leave = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancelled.cancel();
    };
    let (told, ()) = tokio::join!(provider.run(&call, context), leave);
    assert!(matches!(told, Err(RunError::MayHaveRun(_))), "{told:?}");
}

#[tokio::test]
async fn a_file_may_have_any_name() {
    let files = [
        ("100%/a b#c?.js", "throw new Error('x')"),
        ("m%20.mjs", "import './100%25/a%20b%23c%3F.js'"),
    ];
    let text = complaint(&files, "node '100%/a b#c?.js'").await;
    assert!(text.starts_with("/work/100%/a b#c?.js:1\nthrow"), "{text}");
    let text = complaint(&files, "node 'm%20.mjs'").await;
    assert!(text.starts_with("/work/100%/a b#c?.js:1\nthrow"), "{text}");
}
