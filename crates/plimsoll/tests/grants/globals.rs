//! Where the client stands, and the order and names of the scripts around a program.

use crate::api::{Api, ok};
use crate::setup::{EVERY_VERB, prints, run, spec};

#[tokio::test(flavor = "multi_thread")]
async fn any_name_is_a_name_and_none_escapes_its_string() {
    let api = Api::start(|_| ok("7"));
    for name in [
        "",
        "port",
        "__proto__",
        "constructor",
        "toString",
        "console",
        "höst",
        "主机",
        "a b.c-d",
        "0",
        "\"];console.log('escaped')//",
        "'+console.log('escaped')+'",
        "\\\"];console.log('escaped')//",
        "*/console.log('escaped')/*",
        "`${console.log('escaped')}`",
        "line\u{2028}separator\nand\r\u{0}others",
        "\u{10ffff}",
        "\"@ALLOW@\" \"@GLOBAL@\"",
    ] {
        let mut spec = spec(&api, &EVERY_VERB);
        spec.global = name.to_owned();
        let shown = if name.is_empty() { "host" } else { name };
        let key = serde_json::to_string(shown).unwrap();
        let code = format!(
            "const own = Object.getOwnPropertyDescriptor(globalThis, {key});
            process.stdout.write([typeof own.value.get, Object.getPrototypeOf(own.value) === Object.prototype,
                own.writable, own.enumerable, own.configurable, await own.value.get('/b/1')].join() + '\\n');
            process.stdout.write(String(globalThis[{key}] === own.value));"
        );
        assert_eq!(
            prints(spec.validate().unwrap(), &code).await,
            "function,true,true,true,true,7\ntrue",
            "{name:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_the_language_keeps_leaves_the_language_as_it_is() {
    let api = Api::start(|_| ok("7"));
    for name in ["undefined", "NaN", "Infinity"] {
        let mut spec = spec(&api, &EVERY_VERB);
        spec.global = name.to_owned();
        let code = "console.log(undefined, NaN, Infinity, typeof host)";
        assert_eq!(
            prints(spec.validate().unwrap(), code).await,
            "undefined NaN Infinity undefined\n",
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_comes_first_then_the_preamble_then_the_program_whose_first_line_is_its_first() {
    let api = Api::start(|_| ok("7"));
    let mut spec = spec(&api, &EVERY_VERB);
    spec.preamble = "// one\nconsole.log('preamble', typeof host.get);\nhost.berth = (id) => host.get('/b/' + id);\n\
                     var shared = 'from the preamble';\nhost.where = () => new Error('x').stack"
        .to_owned();
    let grant = spec.validate().unwrap();
    let code = "console.log('program', shared, await host.berth(1), host.where().includes('preamble.js:5'));\n\
                await host.get('/b/x').then(() => { throw new Error('second line') })";
    let run = run(grant.clone(), code).await;
    assert_eq!(
        run.stdout_text(),
        "preamble function\nprogram from the preamble 7 true\n"
    );
    assert!(
        run.exit_code == 1 && run.stderr_text().contains("main.js:2"),
        "{}",
        run.stderr_text()
    );
    let run = crate::setup::run(grant, "throw new Error('first line')").await;
    assert!(run.stderr_text().contains("main.js:1"), "{}", run.stderr_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preamble_that_throws_ends_the_run_with_exit_code_1_and_its_name_in_the_stack() {
    let api = Api::start(|_| ok("7"));
    for (preamble, words) in [
        (
            "console.log('kept');\nthrow new TypeError('bad preamble')",
            "TypeError: bad preamble",
        ),
        ("console.log('kept'); let x = ;", "SyntaxError"),
        ("console.log('kept');\nnosuch()", "ReferenceError"),
    ] {
        let mut spec = spec(&api, &EVERY_VERB);
        spec.preamble = preamble.to_owned();
        let run = run(spec.validate().unwrap(), "console.log('the program ran')").await;
        let stderr = run.stderr_text();
        assert_eq!(run.exit_code, 1, "{preamble}: {stderr}");
        assert!(
            stderr.contains(words) && stderr.contains("preamble.js"),
            "{preamble}: {stderr}"
        );
        assert!(
            !run.stdout_text().contains("the program ran"),
            "{preamble}: {}",
            run.stdout_text()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_grant_has_no_client_and_its_primitive_answers_503() {
    let code = "console.log(typeof host, __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/b/1\"}').status)";
    let run = crate::setup::sandbox()
        .await
        .run_javascript(code)
        .any_tier()
        .send()
        .await
        .unwrap();
    assert_eq!((run.stdout.as_slice(), run.calls), (&b"undefined 503\n"[..], None));
}
