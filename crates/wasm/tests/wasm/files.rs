//! What the files of a session promise: one tree for all its calls, as `node:fs` shows it.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, Files, RunReport, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(20);

fn engine(memory_pages: u32) -> Engine {
    Engine::new(EngineConfig {
        memory_pages,
        slots: 2,
        ..EngineConfig::default()
    })
    .unwrap()
}

async fn run(engine: &Engine, files: &Files, code: &str) -> RunReport {
    let mut spec = RunSpec::new(code, TIMEOUT);
    spec.files = Some(files.clone());
    engine.run(spec).await.unwrap()
}

/// What a program prints that ends well.
async fn prints(engine: &Engine, files: &Files, code: &str) -> String {
    let report = run(engine, files, code).await;
    let stderr = String::from_utf8_lossy(&report.stderr.bytes).into_owned();
    assert_eq!((report.exit_code, stderr.as_str()), (0, ""), "{code}");
    String::from_utf8(report.stdout.bytes).unwrap()
}

/// Programs that share one tree, one after the other, and what each prints.
const STORY: &[(&str, &str)] = &[
    (
        "const fs = require('fs'); fs.writeFileSync('a.txt', 'one'); fs.appendFileSync('/work/a.txt', ' two\\n')",
        "",
    ),
    (
        "console.log(require('node:fs').readFileSync('./a.txt', 'utf8').trim(), require('fs').readFileSync('a.txt').length)",
        "one two 8\n",
    ),
    (
        "const fs = require('fs'); console.log(fs.mkdirSync('x/y/z', { recursive: true }), fs.existsSync('x/y'), fs.existsSync('q'))",
        "/work/x true false\n",
    ),
    (
        "const fs = require('fs'); fs.writeFileSync('x/y/data.json', JSON.stringify({ n: [1, 2] })); console.log(require('./x/y/data.json').n)",
        "[ 1, 2 ]\n",
    ),
    (
        "const fs = require('fs'); console.log(fs.readdirSync('.'), fs.readdirSync('x', { recursive: true }))",
        "[ 'a.txt', 'x' ] [ 'y', 'y/data.json', 'y/z' ]\n",
    ),
    (
        "const fs = require('fs'); console.log(fs.readdirSync('/work', { withFileTypes: true }).map((e) => [e.name, e.isDirectory()]))",
        "[ [ 'a.txt', false ], [ 'x', true ] ]\n",
    ),
    (
        "const s = require('fs').statSync('a.txt'); console.log(s.size, s.isFile(), s.isDirectory(), s.mtime.toISOString())",
        "8 true false 2022-01-01T00:00:00.000Z\n",
    ),
    (
        "const fs = require('fs'); fs.renameSync('x/y', 'moved'); fs.copyFileSync('a.txt', 'moved/b.txt'); console.log(fs.readdirSync('moved'))",
        "[ 'b.txt', 'data.json', 'z' ]\n",
    ),
    (
        "const fs = require('fs/promises'); await fs.writeFile('p', Buffer.from([255, 0])); console.log(await fs.readFile('p'), await fs.readFile('p', 'hex'))",
        "<Buffer ff 00> ff00\n",
    ),
    (
        "require('fs').readFile('p', (error, data) => console.log(error, data.length)); console.log('first')",
        "first\nnull 2\n",
    ),
    (
        "require('fs').readFile('none', (error) => console.log(error.code))",
        "ENOENT\n",
    ),
    (
        "require('fs').writeFileSync('lib.js', '\\nconst { n } = require(\"./moved/data\");\\nexports.sum = () => n[0] + n[1];\\nexports.place = __filename;')",
        "",
    ),
    (
        "const lib = require('./lib'); console.log(lib.sum(), lib.place, require('./lib.js') === lib, require.resolve('./lib'))",
        "3 /work/lib.js true /work/lib.js\n",
    ),
    ("require('fs').writeFileSync('bad.js', '\\n\\nnull.x')", ""),
    (
        "try { require('./bad') } catch (error) { console.log(/bad\\.js:3:6/.test(error.stack)) }",
        "true\n",
    ),
    (
        "const fs = require('fs'); fs.cpSync('moved', 'again', { recursive: true }); fs.rmSync('moved', { recursive: true }); fs.rmSync('none', { force: true }); console.log(fs.readdirSync('.').join(), fs.readdirSync('again').join())",
        "a.txt,again,bad.js,lib.js,p,x b.txt,data.json,z\n",
    ),
    (
        "const fs = require('fs'); fs.unlinkSync('p'); fs.rmdirSync('again/z'); console.log(fs.existsSync('p'), fs.existsSync('again/z'))",
        "false false\n",
    ),
];

#[tokio::test]
async fn all_calls_see_one_tree_through_nodes_fs() {
    let (engine, files) = (engine(4096), Files::default());
    for (code, printed) in STORY {
        assert_eq!(prints(&engine, &files, code).await, *printed, "{code}");
    }
    let interpreter = engine.interpreter().await.unwrap();
    let code = "require('fs').writeFileSync('cell.txt', 'c'); const { n } = require('./again/data.json'); n";
    let ended = interpreter.cell(code, TIMEOUT, None, None, Some(files.clone())).await;
    assert_eq!(ended.unwrap().report.stdout.bytes, b"[ 1, 2 ]\n");
    assert_eq!(
        prints(
            &engine,
            &files,
            "console.log(require('fs').readFileSync('cell.txt', 'latin1'))"
        )
        .await,
        "c\n"
    );
}

#[tokio::test]
async fn errors_are_worded_and_coded_as_nodes() {
    let (engine, files) = (engine(4096), Files::default());
    prints(
        &engine,
        &files,
        "const fs = require('fs'); fs.mkdirSync('d'); fs.writeFileSync('d/f', ''); fs.writeFileSync('f', '')",
    )
    .await;
    for (call, message, code) in [
        (
            "readFileSync('none')",
            "ENOENT: no such file or directory, open 'none'",
            "ENOENT",
        ),
        (
            "readFileSync('d')",
            "EISDIR: illegal operation on a directory, read",
            "EISDIR",
        ),
        (
            "writeFileSync('no/f', '')",
            "ENOENT: no such file or directory, open 'no/f'",
            "ENOENT",
        ),
        (
            "writeFileSync('d', '')",
            "EISDIR: illegal operation on a directory, open 'd'",
            "EISDIR",
        ),
        (
            "writeFileSync('f', '', { flag: 'wx' })",
            "EEXIST: file already exists, open 'f'",
            "EEXIST",
        ),
        ("mkdirSync('d')", "EEXIST: file already exists, mkdir 'd'", "EEXIST"),
        (
            "mkdirSync('f/g', { recursive: true })",
            "ENOTDIR: not a directory, mkdir 'f/g'",
            "ENOTDIR",
        ),
        ("readdirSync('f')", "ENOTDIR: not a directory, scandir 'f'", "ENOTDIR"),
        (
            "statSync('none')",
            "ENOENT: no such file or directory, stat 'none'",
            "ENOENT",
        ),
        (
            "accessSync('none')",
            "ENOENT: no such file or directory, access 'none'",
            "ENOENT",
        ),
        (
            "rmdirSync('d')",
            "ENOTEMPTY: directory not empty, rmdir 'd'",
            "ENOTEMPTY",
        ),
        (
            "unlinkSync('none')",
            "ENOENT: no such file or directory, unlink 'none'",
            "ENOENT",
        ),
        (
            "renameSync('none', 'g')",
            "ENOENT: no such file or directory, rename 'none' -> 'g'",
            "ENOENT",
        ),
        (
            "cpSync('d', './d/e/f', { recursive: true })",
            "Cannot copy d to a subdirectory of self ./d/e/f",
            "ERR_FS_CP_EINVAL",
        ),
        (
            "cpSync('d', '/work/d', { recursive: true })",
            "src and dest cannot be the same /work/d",
            "ERR_FS_CP_EINVAL",
        ),
        (
            "rmSync('d')",
            "Path is a directory: rm returned EISDIR (is a directory) d",
            "ERR_FS_EISDIR",
        ),
    ] {
        let code_of =
            format!("try {{ require('fs').{call} }} catch (e) {{ console.log(e.message); console.log(e.code) }}");
        assert_eq!(
            prints(&engine, &files, &code_of).await,
            format!("{message}\n{code}\n"),
            "{call}"
        );
    }
}

#[tokio::test]
async fn a_run_without_files_has_no_fs() {
    let engine = engine(4096);
    let report = engine.run(RunSpec::new("require('fs')", TIMEOUT)).await.unwrap();
    let stderr = String::from_utf8(report.stderr.bytes).unwrap();
    assert_eq!(report.exit_code, 1);
    assert!(
        stderr.contains("Cannot find module 'fs': this sandbox has no file system"),
        "{stderr}"
    );
}

#[tokio::test]
async fn files_count_against_the_memory() {
    let (engine, files) = (engine(1024), Files::default());
    let fill = "const fs = require('fs'); let n = 0; try { for (;;) fs.writeFileSync(`f${n++}`, new Uint8Array(1 << 20)) } \
        catch (error) { console.log(error.code) } fs.writeFileSync('f0', 'less')";
    let report = run(&engine, &files, fill).await;
    assert_eq!(report.stdout.bytes, b"ENOSPC\n");
    assert!(report.memory_refused && !report.entry_refused);
    assert!((30 << 20..64 << 20).contains(&files.bytes()), "{}", files.bytes());
    // What is left is the memory of the next call.
    let report = run(
        &engine,
        &files,
        "const parts = []; for (;;) parts.push(new Uint8Array(1 << 20).fill(1))",
    )
    .await;
    assert!(report.memory_refused && report.exit_code == 1);
    assert!(report.peak_memory + files.bytes() as u64 <= 64 << 20);
}

#[tokio::test]
async fn a_file_for_whose_new_content_there_is_no_room_keeps_its_old_one() {
    let (engine, files) = (engine(1024), Files::default());
    let code = "
        const fs = require('fs');
        const part = new Uint8Array(20 << 20).fill(1);
        fs.writeFileSync('a', part);
        fs.writeFileSync('b', 'old');
        for (const call of ['writeFileSync', 'appendFileSync'])
            try { fs[call]('b', part) } catch (error) { console.log(error.code, fs.readFileSync('b', 'utf8')) }
        fs.writeFileSync('a', part);
        console.log(fs.statSync('a').size);
    ";
    assert_eq!(
        prints(&engine, &files, code).await,
        "ENOSPC old\nENOSPC old\n20971520\n"
    );
}

#[tokio::test]
async fn nobody_sees_the_files_of_another_session() {
    let (engine, mine, theirs) = (engine(4096), Files::default(), Files::default());
    prints(&engine, &mine, "require('fs').writeFileSync('secret', 'CANARY')").await;
    let look = "console.log(require('fs').readdirSync('.'), require('fs').readdirSync('/tmp'))";
    assert_eq!(prints(&engine, &theirs, look).await, "[] []\n");
    assert_eq!(prints(&engine, &mine, look).await, "[ 'secret' ] []\n");
}

#[tokio::test]
async fn a_copy_of_a_large_file_costs_no_time_and_goes_its_own_way() {
    let (engine, files) = (engine(4096), Files::default());
    let code = "
        const fs = require('fs');
        fs.writeFileSync('a', new Uint8Array(40 << 20).fill(1));
        fs.copyFileSync('a', 'b');
        fs.appendFileSync('b', 'end');
        fs.copyFileSync('b', 'a');
        fs.appendFileSync('a', '!');
        const [a, b] = [fs.readFileSync('a'), fs.readFileSync('b')];
        console.log(a.length, a.subarray(-5).toString('latin1'), b.length, b.subarray(-4).toString('latin1'), a[0], b[0]);
    ";
    assert_eq!(
        prints(&engine, &files, code).await,
        "41943044 \u{1}end! 41943043 \u{1}end 1 1\n"
    );
}

/// One thread serves both: while a guest moves large files about, others have their turn.
#[tokio::test(flavor = "current_thread")]
async fn large_files_do_not_hold_up_other_runs() {
    let (engine, files) = (engine(8192), Files::default());
    let large = "
        const fs = require('fs');
        const part = new Uint8Array(4 << 20).fill(1);
        for (let i = 0; i < 32; i++) fs.appendFileSync('a', part);
        fs.copyFileSync('a', 'b');
        fs.appendFileSync('b', 'x');
        fs.mkdirSync('d');
        for (let i = 0; i < 9000; i++) fs.writeFileSync('d/' + i, '');
        for (let i = 0; i < 50; i++) { fs.renameSync('d', 'e'); fs.renameSync('e', 'd') }
        fs.rmSync('a');
        console.log(fs.statSync('b').size);
    ";
    // Time on the processor, so that a busy host is not taken for a busy guest.
    let spent = || {
        let told = fs_err::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
    };
    let done = AtomicBool::new(false);
    let watch = async {
        let mut longest = Duration::ZERO;
        while !done.load(Ordering::Relaxed) {
            let before = spent();
            tokio::task::yield_now().await;
            longest = longest.max(spent().saturating_sub(before));
        }
        longest
    };
    let work = async {
        let printed = prints(&engine, &files, large).await;
        done.store(true, Ordering::Relaxed);
        printed
    };
    let (printed, longest) = tokio::join!(work, watch);
    assert_eq!(printed, "134217729\n");
    assert!(longest < Duration::from_millis(30), "{longest:?}");
}
