//! Modules: what `require` and `import` find, and what they say when they do not.

use plimsoll_core::RunResult;

use super::support::*;

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
