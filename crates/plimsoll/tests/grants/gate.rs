//! The client's early refusal and the broker's rule are one rule.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::api::{Api, ok};
use crate::setup::{run, spec};

const ROUTES: [&str; 11] = [
    "GET /",
    "GET /*",
    "GET /v1/items/*",
    "PUT /l/*/on",
    "POST /items:batchGet",
    "POST /items/*/a:close",
    "PATCH /a/$x&y=1,2@z+w~",
    "DELETE /a/*/b/*",
    "GET /.well-known/x",
    "GET /a..b/c.",
    "PATCH /*/*/*",
];

const METHODS: [&str; 18] = [
    "GET",
    "get",
    "GeT",
    "PUT",
    "pUt",
    "POST",
    "post",
    "PATCH",
    "DELETE",
    "delete",
    "HEAD",
    "OPTIONS",
    "",
    " GET",
    "GET ",
    "GET\0",
    "po\u{17f}t",
    "DELETE\n",
];

const SEGMENTS: [&str; 40] = [
    "",
    "v1",
    "V1",
    "items",
    "x",
    "l",
    "on",
    "a",
    "b",
    "c.",
    "a..b",
    ".well-known",
    "items:batchGet",
    "a:close",
    "a:b",
    ":",
    "$x&y=1,2@z+w~",
    "*",
    "**",
    "a*",
    ".",
    "..",
    "...",
    "....",
    ";",
    "..;",
    "a;b",
    "%78",
    "%2e%2e",
    "%2F",
    "café",
    "[x]",
    "a b",
    "a\\b",
    "a'b",
    "x?y=1",
    "x#f",
    "a\u{0}",
    "\u{7f}",
    "\u{2028}",
];

const CHARS: &str = "/.:;%?#\\*'!()[]{}|^\"<>` aZ09-_~$&+,=@é\u{e000}\u{202e}\u{10ffff}\u{1}\n\t\u{7f}\u{80}";

/// Paths made of telling segments, of telling characters, and of good paths with one character put in.
fn path() -> impl Strategy<Value = String> {
    let segments = || vec(select(&SEGMENTS[..]), 0..6);
    let of_segments = (segments(), select(&["/", "", "//", "http://h/", "\\"][..]))
        .prop_map(|(segments, start)| format!("{start}{}", segments.join("/")));
    let chars: Vec<char> = CHARS.chars().collect();
    let of_chars = vec(select(chars.clone()), 0..12).prop_map(|chars| chars.into_iter().collect::<String>());
    let absolute = of_chars.clone().prop_map(|rest| format!("/{rest}"));
    let bent = (select(&ROUTES[..]), select(chars), any::<prop::sample::Index>()).prop_map(|(route, put, at)| {
        let good = route.split_once(' ').unwrap().1.replace('*', "x7");
        let mut bent: Vec<char> = good.chars().collect();
        bent.insert(at.index(bent.len() + 1), put);
        bent.into_iter().collect::<String>()
    });
    let long = (8_180_usize..8_200).prop_map(|length| format!("/{}", "x".repeat(length - 1)));
    prop_oneof![6 => of_segments, 2 => of_chars, 4 => absolute, 4 => bent, 1 => long]
}

/// A method and a path: each of its own, or those of a route with telling segments for its stars.
fn call() -> impl Strategy<Value = (String, String)> {
    let apart = (select(&METHODS[..]), path()).prop_map(|(method, path)| (method.to_owned(), path));
    let of_route = (select(&ROUTES[..]), select(&SEGMENTS[..]), any::<bool>()).prop_map(|(route, segment, lower)| {
        let (method, path) = route.split_once(' ').unwrap();
        let method = if lower {
            method.to_lowercase()
        } else {
            method.to_owned()
        };
        (method, path.replace('*', segment))
    });
    prop_oneof![2 => apart, 1 => of_route]
}

/// Asks the client and then, past it, the broker; prints what they disagree about.
const ASK_BOTH: &str = r"
    const verdicts = [];
    for (const [method, path] of CASES) {
        const gate = await host.call(method, path).then(() => true, (error) => {
            if (error.message.startsWith('host api call not permitted')) return false;
            return 'host api ' + error.status;
        });
        const status = __plimsoll_host_call(JSON.stringify({method, path})).status;
        verdicts.push([gate, status]);
    }
    console.log(JSON.stringify(verdicts));
";

#[test]
fn the_client_permits_exactly_what_the_broker_permits_and_that_is_what_goes_on_the_wire() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let api = Api::start(|_| ok("1"));
    let mut permitted = 0_usize;
    let cases = vec(call(), 60);
    let inputs = (cases, prop::sample::subsequence(&ROUTES[..], 1..=ROUTES.len()));
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(60)
    });
    let seen = std::cell::RefCell::new(&mut permitted);
    runner
        .run(&inputs, |(cases, allow)| {
            let before = api.asked().len();
            let code = ASK_BOTH.replace("CASES", &serde_json::to_string(&cases).unwrap());
            let run = runtime.block_on(run(spec(&api, &allow).validate().unwrap(), &code));
            prop_assert_eq!(run.exit_code, 0, "{}", run.stderr_text());
            let verdicts: Vec<(serde_json::Value, u16)> = serde_json::from_str(&run.stdout_text()).unwrap();
            let mut sent = Vec::new();
            for ((method, path), (gate, status)) in cases.iter().zip(&verdicts) {
                prop_assert!(matches!(status, 200 | 403), "{method:?} {path:?}: {status}");
                prop_assert_eq!(
                    gate,
                    &serde_json::json!(*status == 200),
                    "{:?} {:?} under {:?}",
                    method,
                    path,
                    allow
                );
                if *status == 200 {
                    sent.extend([
                        format!("{} {path}", method.to_uppercase()),
                        format!("{} {path}", method.to_uppercase()),
                    ]);
                }
            }
            prop_assert_eq!(&api.lines()[before..], sent.as_slice(), "approved is what is sent");
            **seen.borrow_mut() += sent.len();
            Ok(())
        })
        .unwrap();
    assert!(
        permitted > 400,
        "only {permitted} calls were permitted: the paths prove little"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_surrogate_is_refused_on_both_sides() {
    let api = Api::start(|_| ok("1"));
    let code = r"
        for (const path of ['/\ud800', '/x\udfff', '\ud83d']) {
            await host.get(path).catch((error) => console.log(error.message.slice(0, 27)));
            console.log(__plimsoll_host_call(`{\x22method\x22:\x22GET\x22,\x22path\x22:\x22${path}\x22}`).status);
        }";
    let run = run(spec(&api, &["GET /*"]).validate().unwrap(), code).await;
    assert_eq!(
        run.stdout_text(),
        "host api call not permitted\n403\n".repeat(3),
        "{}",
        run.stderr_text()
    );
    assert!(api.asked().is_empty());
}
