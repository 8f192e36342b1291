//! Projects: files in memory, `node FILE` steps, artifacts, called as a daemon calls them.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{
    Limit, Outcome, Payload, Permit, ProjectFile, ProjectOutcome, ProjectResult, ProjectRun, Reason, Refusal,
    Resources, RunError, RunRequest, RunResult, StepResult, Validated,
};
use plimsoll_sandbox::{AdmittedCall, RunContext, Sandbox};
use plimsoll_wasm::Wasm;
use tokio_util::sync::CancellationToken;

fn provider() -> Wasm {
    Wasm::new(Resources::default(), 2).unwrap()
}

fn file(path: &str, content: &str) -> ProjectFile {
    ProjectFile {
        path: path.to_owned(),
        content: content.to_owned(),
    }
}

fn project(files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]) -> ProjectRun {
    ProjectRun {
        files: files.iter().map(|(path, content)| file(path, content)).collect(),
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        artifacts: artifacts.iter().map(|&path| path.to_owned()).collect(),
        grant_profile: String::new(),
    }
}

fn admitted(provider: &Wasm, request: RunRequest) -> Result<AdmittedCall, Refusal> {
    let call = Validated::new(request)?.grant(|_| Ok(None))?;
    Ok(call.authorize(&provider.evidence())?.admit(Permit::new(())))
}

async fn attempt(provider: &Wasm, project: ProjectRun, timeout_ms: i32) -> Result<Outcome, RunError> {
    let request = RunRequest {
        protocol: PROTOCOL,
        payload: Some(Payload::Project(project)),
        timeout_ms,
        ..RunRequest::default()
    };
    let call = admitted(provider, request)?;
    let context = RunContext {
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled: CancellationToken::new(),
        broker: None,
    };
    provider.run(&call, context).await
}

async fn outcome(provider: &Wasm, project: ProjectRun) -> (ProjectResult, Outcome) {
    let outcome = attempt(provider, project, 0).await.unwrap();
    match outcome.result.clone() {
        RunResult::Project(result) => (result, outcome),
        other => panic!("{other:?}"),
    }
}

async fn result(files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]) -> ProjectResult {
    outcome(&provider(), project(files, steps, artifacts)).await.0
}

/// The one step's standard output, of a project that went well.
async fn printed(files: &[(&str, &str)], step: &str) -> String {
    let result = result(files, &[step], &[]).await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    let step = &result.steps[0];
    assert_eq!(step.exit_code, 0, "{}{}", step.stdout_text(), step.stderr_text());
    assert_eq!(step.stderr_text(), "");
    step.stdout_text().into_owned()
}

/// The one step, of a project whose step failed with exit code 1.
async fn failing(files: &[(&str, &str)], step: &str) -> StepResult {
    let result = result(files, &[step], &[]).await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    assert_eq!(result.steps[0].exit_code, 1, "{result:?}");
    result.steps[0].clone()
}

async fn complaint(files: &[(&str, &str)], step: &str) -> String {
    failing(files, step).await.stderr_text().into_owned()
}

fn refused(error: RunError) -> Refusal {
    match error {
        RunError::NotDispatched(refusal) => refusal,
        other @ RunError::MayHaveRun(_) => panic!("{other:?}"),
    }
}

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
        let steps = [step, "node a.js"];
        let error = attempt(&provider, project(&[("a.js", "")], &steps, &[]), 0)
            .await
            .unwrap_err();
        let refusal = refused(error);
        assert_eq!(refusal.reason(), Reason::Unsupported);
        let text = refusal.to_string();
        assert!(
            text.contains(named) && text.contains("`node FILE [arguments]`"),
            "{text}"
        );
    }
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
async fn common_js_resolves_files_folders_json_and_packages() {
    let files = [
        ("main.js", "
            const { join } = require('path');
            console.log(require('./lib').name, require('./lib/two').name, require('./data').n, require('/work/data.json').n);
            console.log(require('left'), require('left/sub'), require('right'), require('@own/scoped/deep'), require('@own/scoped/a/b'));
            console.log(require('./lib') === require('./lib/index.js'), require.resolve('./lib'), require.resolve('left'));
            console.log(require.main === module, module.id, module.paths[0], typeof globalThis.require, typeof globalThis.module);
            console.log(this === exports, arguments.length);
        "),
        ("lib/index.js", "exports.name = 'index'; exports.two = require('./two').name"),
        ("lib/two.js", "exports.name = 'two ' + __filename; exports.back = require('.').name; exports.main = require.main === module"),
        ("data.json", "{\"n\": 1}"),
        ("node_modules/left/package.json", "{\"main\": \"dist/start\"}"),
        ("node_modules/left/dist/start.js", "module.exports = 'left'"),
        ("node_modules/left/sub.js", "module.exports = 'sub'"),
        ("node_modules/right/index.js", "module.exports = 'right'"),
        ("node_modules/@own/scoped/package.json", "{\"exports\": {\"./deep\": {\"import\": \"./no.mjs\", \"require\": \"./deep.cjs\"}, \"./a/*\": \"./in/*.js\"}}"),
        ("node_modules/@own/scoped/deep.cjs", "module.exports = 'deep'"),
        ("node_modules/@own/scoped/in/b.js", "module.exports = 'starred'"),
    ];
    assert_eq!(
        printed(&files, "node main").await,
        "index two /work/lib/two.js 1 1\nleft sub right deep starred\ntrue /work/lib/index.js /work/node_modules/left/dist/start.js\ntrue . /work/node_modules undefined undefined\ntrue 5\n"
    );
    let hidden = [("main.js", "require('@own/scoped/hidden')"), files[8]];
    let text = complaint(&hidden, "node main.js").await;
    assert!(text.contains("ERR_PACKAGE_PATH_NOT_EXPORTED"), "{text}");
}

#[tokio::test]
async fn es_modules_import_each_other_common_js_json_and_node() {
    let files = [
        ("package.json", "{\"type\": \"module\", \"main\": \"main.js\", \"name\": \"whole\", \"imports\": {\"#inner\": \"./lib/inner.js\"}, \"exports\": \"./lib/inner.js\"}"),
        ("main.js", "
            import fs, { existsSync } from 'node:fs';
            import path from 'path';
            import { setTimeout as sleep } from 'node:timers/promises';
            import common, { name, count } from './lib/common.cjs';
            import * as inner from '#inner';
            import self from 'whole';
            import data from './data.json' with { type: 'json' };
            import pack, { version } from 'pack';
            import { createRequire } from 'node:module';
            console.log(typeof require, typeof module, this);
            console.log(fs.existsSync === existsSync, path.basename('/a/b'), name, count, common.name, data.n, version, pack);
            console.log(inner.default, inner.late, self === inner.default);
            await sleep(1);
            const { default: again, ...rest } = await import('./lib/inner.js');
            console.log(again === inner.default, Object.keys(rest));
            console.log(createRequire(import.meta.url)('./lib/common.cjs') === common);
            console.log(import.meta.url, import.meta.filename, import.meta.dirname);
            console.log(import.meta.resolve('./lib/x.js') === 'no');
        "),
        ("lib/inner.js", "export default import.meta.filename; export let late = 1; late = await Promise.resolve(2);"),
        ("lib/common.cjs", "exports.name = 'common'; module.exports.count = 2; // exports.ghost = 1"),
        ("data.json", "{\"n\": 3}"),
        ("node_modules/pack/package.json", "{\"exports\": {\".\": {\"import\": \"./pack.mjs\", \"default\": \"./no.js\"}}}"),
        ("node_modules/pack/pack.mjs", "export const version = '1.0'; export default 'pack';"),
    ];
    let result = result(&files, &["node ."], &[]).await;
    let step = &result.steps[0];
    assert_eq!(
        step.stdout_text(),
        "undefined undefined undefined\ntrue b common 2 common 3 1.0 pack\n/work/lib/inner.js 2 true\ntrue [ 'late' ]\ntrue\nfile:///work/main.js /work/main.js /work\n",
        "{}",
        step.stderr_text()
    );
    assert_eq!(step.exit_code, 1);
    let text = step.stderr_text();
    assert!(
        text.contains("ERR_MODULE_NOT_FOUND") && text.contains("/work/lib/x.js"),
        "{text}"
    );
}

#[tokio::test]
async fn the_kind_of_a_file_is_what_its_ending_its_package_or_its_syntax_says() {
    let es = "import path from 'node:path'; console.log(typeof require, path.sep)";
    let common = "console.log(typeof require, require('path').sep)";
    for (files, step, told) in [
        (vec![("a.mjs", es)], "node a.mjs", "undefined /\n"),
        (vec![("a.js", es)], "node a.js", "undefined /\n"),
        (vec![("a.js", "console.log(await 1)")], "node a.js", "1\n"),
        (
            vec![("a.cjs", common), ("package.json", "{\"type\": \"module\"}")],
            "node a.cjs",
            "function /\n",
        ),
        (
            vec![("a.js", es), ("package.json", "{\"type\": \"module\"}")],
            "node a.js",
            "undefined /\n",
        ),
        (
            vec![
                ("in/a.js", common),
                ("in/package.json", "{}"),
                ("package.json", "{\"type\": \"module\"}"),
            ],
            "node in/a.js",
            "function /\n",
        ),
        (
            vec![("a.js", "const text = 'import x from y'; console.log(text.length)")],
            "node a.js",
            "15\n",
        ),
        (
            vec![(
                "a.js",
                "#!/usr/bin/env node\nconsole.log(new Error().stack.split('\\n')[1].trim())",
            )],
            "node a.js",
            "at Object.<anonymous> (/work/a.js:2:13)\n",
        ),
        (
            vec![(
                "a.mjs",
                "#!/usr/bin/env node\nconsole.log(new Error().stack.split('\\n')[1].trim())",
            )],
            "node a.mjs",
            "at file:///work/a.mjs:2:13\n",
        ),
    ] {
        assert_eq!(printed(&files, step).await, told, "{files:?}");
    }
    for (files, named) in [
        (vec![("a.cjs", es)], "Cannot use import statement outside a module"),
        (
            vec![("a.js", es), ("package.json", "{\"type\": \"commonjs\"}")],
            "Cannot use import statement outside a module",
        ),
        (
            vec![("a.js", common), ("package.json", "{\"type\": \"module\"}")],
            "require is not defined",
        ),
        (vec![("a.js", "let x = ;")], "SyntaxError"),
    ] {
        let step = format!("node {}", files[0].0);
        let text = complaint(&files, &step).await;
        assert!(text.contains(named), "{text}");
    }
}

#[tokio::test]
async fn circles_are_no_trouble() {
    let es = [
        (
            "main.mjs",
            "import { a } from './a.mjs'; import { b } from './b.mjs'; console.log(a(), b())",
        ),
        (
            "a.mjs",
            "import { b } from './b.mjs'; export const a = () => 'a' + (typeof b)",
        ),
        (
            "b.mjs",
            "import { a } from './a.mjs'; export function b() { return 'b' + typeof a }",
        ),
    ];
    assert_eq!(printed(&es, "node main.mjs").await, "afunction bfunction\n");
    let common = [
        ("main.js", "console.log(require('./a').done, require('./b').seen)"),
        (
            "a.js",
            "exports.done = false; exports.b = require('./b'); exports.done = true",
        ),
        ("b.js", "exports.seen = require('./a').done"),
    ];
    assert_eq!(printed(&common, "node main.js").await, "true false\n");
    let both = [
        (
            "main.mjs",
            "import common from './c.cjs'; export const x = 1; common.later.then((x) => console.log(x))",
        ),
        ("c.cjs", "exports.later = import('./main.mjs').then((main) => main.x)"),
    ];
    assert_eq!(printed(&both, "node main.mjs").await, "1\n");
}

#[tokio::test]
async fn a_module_that_failed_to_load_fails_again_and_breaks_nothing() {
    let files = [
        ("main.mjs", "
            for (const name of ['./whole.mjs', './part.mjs', './whole.mjs', './throws.mjs', './throws.mjs', './broken.mjs']) {
                await import(name).then(() => console.log('loaded'), (error) => console.log(error.name, error.code, error.message.slice(0, 40)));
            }
            console.log((await import('./fine.mjs')).default);
        "),
        ("whole.mjs", "import './part.mjs'; import './missing.mjs'; export const x = 1"),
        ("part.mjs", "import { x } from './whole.mjs'; import './fine.mjs'; export default () => x"),
        ("throws.mjs", "throw new RangeError('once')"),
        ("broken.mjs", "export default = 1"),
        ("fine.mjs", "export default 'fine'"),
    ];
    let missing = "Error ERR_MODULE_NOT_FOUND Cannot find module '/work/missing.mjs' i";
    let told = printed(&files, "node main.mjs").await;
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(
        lines[..5],
        [
            missing,
            missing,
            missing,
            "RangeError undefined once",
            "RangeError undefined once"
        ]
    );
    assert!(lines[5].starts_with("SyntaxError"), "{told}");
    assert_eq!(lines[6], "fine");
}

#[tokio::test]
async fn import_works_in_common_js_and_reads_what_a_program_wrote() {
    let files = [
        (
            "main.js",
            "
        require('fs').mkdirSync('made');
        require('fs').writeFileSync('made/m.mjs', 'export default import.meta.dirname');
        require('fs').writeFileSync('made/c.js', 'exports.up = require(\"../main.json\").n');
        import('./made/m.mjs').then((m) => console.log(m.default));
        import('./made/c.js').then((m) => console.log(m.up, m.default));
        import('node:fs').then((m) => console.log(m.default === require('fs'), typeof m.readFileSync));
        import('./made/m.mjs?again').then((m) => console.log(m.default));
        ",
        ),
        ("main.json", "{\"n\": 5}"),
    ];
    let told = printed(&files, "node main.js").await;
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/work/made", "/work/made", "5 { up: 5 }", "true function"]);
}

#[tokio::test]
async fn what_cannot_be_imported_is_told_with_its_reason() {
    for (code, code_name, named) in [
        ("require('./m.mjs')", "ERR_REQUIRE_ESM", "import('/work/m.mjs')"),
        ("require('./missing')", "MODULE_NOT_FOUND", "there is no such file here"),
        ("require('lodash')", "MODULE_NOT_FOUND", "node_modules"),
        ("require('http')", "MODULE_NOT_FOUND", "no network"),
        ("require('node:test')", "MODULE_NOT_FOUND", "available are"),
        ("require('./bad.json')", "SyntaxError", "/work/bad.json"),
        (
            "import('./m').catch((e) => { throw e })",
            "ERR_MODULE_NOT_FOUND",
            "did you mean to import \"/work/m.js\"",
        ),
        (
            "import('./dir').catch((e) => { throw e })",
            "ERR_UNSUPPORTED_DIR_IMPORT",
            "/work/dir/index.js",
        ),
        (
            "import('https://example.org/x.js')",
            "ERR_UNSUPPORTED_ESM_URL_SCHEME",
            "no network",
        ),
        (
            "import('lodash')",
            "ERR_MODULE_NOT_FOUND",
            "package 'lodash' imported from /work/main.js",
        ),
        ("import('./bad.json')", "ERR_IMPORT_ATTRIBUTE_MISSING", "type: json"),
        ("import('./none.txt')", "ERR_UNKNOWN_FILE_EXTENSION", ".txt"),
        (
            "import('plimsoll:internal/native')",
            "ERR_UNSUPPORTED_ESM_URL_SCHEME",
            "only files",
        ),
        (
            "import('node:plimsoll:fs')",
            "ERR_MODULE_NOT_FOUND",
            "not part of this sandbox",
        ),
    ] {
        let files = [
            ("main.js", code),
            ("m.mjs", ""),
            ("m.js", ""),
            ("dir/index.js", ""),
            ("bad.json", "{"),
            ("none.txt", ""),
        ];
        let text = complaint(&files, "node main.js").await;
        assert!(text.contains(code_name) && text.contains(named), "{code}: {text}");
    }
    let text = complaint(
        &[("a.mjs", "import { nothing } from './b.mjs'"), ("b.mjs", "")],
        "node a.mjs",
    )
    .await;
    assert!(
        text.contains(
            "SyntaxError: The requested module 'file:///work/b.mjs' does not provide an export named 'nothing'"
        ),
        "{text}"
    );
    let text = complaint(&[("a.mjs", "import { nothing } from 'node:path'")], "node a.mjs").await;
    assert!(text.contains("does not provide an export named 'nothing'"), "{text}");
    let text = complaint(&[("a.js", "")], "node b.js").await;
    assert!(text.contains("Cannot find module '/work/b.js'"), "{text}");
}

#[tokio::test]
async fn errors_show_the_line_of_their_file_as_node_does() {
    let files = [
        ("a.js", "const f = () => { throw new Error('boom') };\n\n  f();"),
        ("b.mjs", "import './in/c.mjs';"),
        ("in/c.mjs", "\nnull.x;"),
    ];
    let text = complaint(&files, "node a.js").await;
    assert!(text.starts_with("/work/a.js:1\nconst f = () => { throw new Error('boom') };\n                        ^\n\nError: boom\n    at f (/work/a.js:1:25)\n    at Object.<anonymous> (/work/a.js:3:3)\n"), "{text}");
    let text = complaint(&files, "node b.mjs").await;
    assert!(text.starts_with("file:///work/in/c.mjs:2\nnull.x;\n     ^\n\nTypeError: Cannot read properties of null (reading 'x')\n    at file:///work/in/c.mjs:2:6\n"), "{text}");
    let text = complaint(&[("a.js", "let a = 1;\nlet b = = 2;")], "node a.js").await;
    assert!(
        text.starts_with("/work/a.js:2\nlet b = = 2;\n        ^\n\nSyntaxError"),
        "{text}"
    );
    let text = complaint(
        &[("a.mjs", "import './b.mjs'"), ("b.mjs", "\nexport let b = = 2;")],
        "node a.mjs",
    )
    .await;
    assert!(
        text.starts_with("file:///work/b.mjs:2\nexport let b = = 2;\n"),
        "{text}"
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
async fn a_step_that_writes_more_than_is_kept_is_ended_and_the_run_keeps_three_mebibytes() {
    let flood = "const part = 'x'.repeat(65536); for (;;) process.stdout.write(part)";
    let files = [
        ("flood.js", flood),
        (
            "some.js",
            "process.stdout.write('o'.repeat(1 << 20)); process.stderr.write('e'.repeat(600 << 10))",
        ),
    ];
    let result = result(
        &files,
        &["node some.js", "node some.js", "node flood.js", "node some.js"],
        &[],
    )
    .await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED);
    let told: Vec<_> = result
        .steps
        .iter()
        .map(|step| {
            (
                step.exit_code,
                step.stdout.len(),
                step.stdout_truncated,
                step.stderr.len(),
                step.stderr_truncated,
            )
        })
        .collect();
    let (mebibyte, most) = (1 << 20, 600 << 10);
    assert_eq!(
        told,
        [
            (0, mebibyte, false, most, false),
            (0, mebibyte, false, 3 * mebibyte - 2 * mebibyte - most, true),
            (137, 0, true, 0, false)
        ]
    );
    assert_eq!(result.steps[2].diagnostics.limit_hit, Some(Limit::Output));
}

#[tokio::test]
async fn artifacts_stop_at_eight_mebibytes() {
    let write = "for (const name of ['a', 'b', 'c']) require('fs').writeFileSync(name, new Uint8Array(name === 'c' ? 1 : 5 << 20))";
    let result = result(&[("w.js", write)], &["node w.js"], &["c", "a", "b", "w.js"]).await;
    let kept: Vec<_> = result
        .artifacts
        .iter()
        .map(|one| (&*one.path, one.content.len()))
        .collect();
    assert_eq!(kept, [("c", 1), ("a", 5 << 20)]);
    assert!(result.artifacts_truncated);
}

#[tokio::test]
async fn files_and_program_have_one_memory_limit_and_too_many_files_are_told_as_such() {
    let small = Wasm::new(
        Resources {
            memory_mb: 64,
            ..Resources::default()
        },
        1,
    )
    .unwrap();
    let fill = "
        const fs = require('fs');
        let n = 0;
        try { for (;; n++) fs.writeFileSync(`f${n}`, new Uint8Array(1 << 20)) } catch (error) { console.log(error.code, n > 20 && n < 64) }
    ";
    let (result, told) = outcome(&small, project(&[("a.js", fill)], &["node a.js", "node a.js"], &[])).await;
    assert_eq!(result.steps[0].stdout_text(), "ENOSPC true\n", "{result:?}");
    assert_eq!(told.diagnostics.limit_hit, Some(Limit::Memory));
    assert_eq!(result.outcome, ProjectOutcome::RUNNER_FAILED);
    assert!(
        result.outcome_detail.starts_with("step 2 could not start"),
        "{}",
        result.outcome_detail
    );

    let many = "
        const fs = require('fs');
        let n = 0;
        try { for (;; n++) fs.writeFileSync(`f${n}`, '') } catch (error) { console.log(error.code, n) }
        fs.renameSync('f0', 'g'); fs.rmSync('f1'); fs.writeFileSync('f1', '');
    ";
    let (result, told) = outcome(&small, project(&[("a.js", many)], &["node a.js"], &[])).await;
    assert_eq!(result.steps[0].stdout_text(), "ENOSPC 9999\n", "{result:?}");
    assert_eq!(told.diagnostics.limit_hit, Some(Limit::Disk));
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
async fn a_chain_of_imports_as_long_as_there_may_be_files_ends_without_a_trap() {
    for (ending, before, after) in [("mjs", "import ", ""), ("cjs", "require(", ")")] {
        let main = format!(
            "
            const fs = require('fs');
            const text = (i) => `{before}'./m${{i + 1}}.{ending}'{after}`;
            for (let i = 0; i < 9000; i++) fs.writeFileSync(`m${{i}}.{ending}`, text(i));
            fs.writeFileSync('m9000.{ending}', '');
            import('./m0.{ending}').then(() => console.log('loaded'), (error) => console.log(error.name, error.message));
            "
        );
        let request = project(&[("main.cjs", &main)], &["node main.cjs"], &[]);
        let RunResult::Project(result) = attempt(&provider(), request, 30_000).await.unwrap().result else {
            panic!("a project has a project's result")
        };
        let step = &result.steps[0];
        assert_eq!((step.exit_code, step.diagnostics.trap), (0, None), "{result:?}");
        let told = step.stdout_text();
        assert!(
            ["loaded\n", "RangeError Maximum call stack size exceeded\n"].contains(&told.as_ref()),
            "{told}"
        );
    }
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
