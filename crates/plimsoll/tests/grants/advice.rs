//! Advice never changes a run: the same program comes to the same result whoever is told.

use std::collections::BTreeMap;

use plimsoll::Run;
use plimsoll::grants::{Audience, Grant, Profile, Route};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::api::{Api, Asked, Reply, ok};
use crate::setup::{spec, with_profile};

const AUDIENCES: [Audience; 3] = [Audience::Off, Audience::Operator, Audience::Caller];

/// One thing a program does.
#[derive(Clone, Debug)]
enum Step {
    /// The same read so many times.
    Read(&'static str, u8),
    /// Reads of single items, each of its own.
    Items(u8),
    Write(u8, String),
    /// Past the client, so that the broker refuses it.
    Refused(u8),
    Print(String),
    Complain(String),
    Wait(u16),
    Throw,
    Reject,
    Exit(u8),
    Flood,
}

impl Step {
    fn javascript(&self) -> String {
        let told = "then((answer) => console.log(JSON.stringify(answer)), (error) => console.log(error.message))";
        match self {
            Self::Read(path, times) => format!("for (let i = 0; i < {times}; i++) await host.get('{path}').{told};"),
            Self::Items(count) => format!("for (let i = 0; i < {count}; i++) await host.get('/items/' + i).{told};"),
            Self::Write(item, text) => format!("await host.put('/items/{item}', {}).{told};", json(text)),
            Self::Refused(times) => format!(
                "for (let i = 0; i < {times}; i++) console.log(__plimsoll_host_call('{{\"method\":\"GET\",\"path\":\"/no\"}}').status);"
            ),
            Self::Print(text) => format!("console.log({});", json(text)),
            Self::Complain(text) => format!("console.error({});", json(text)),
            Self::Wait(ms) => format!("await new Promise((done) => setTimeout(done, {ms})); console.log(Date.now());"),
            Self::Throw => "throw new Error('thrown');".to_owned(),
            Self::Reject => "Promise.reject(new Error('rejected'));".to_owned(),
            Self::Exit(code) => format!("process.exit({code});"),
            Self::Flood => "console.log('x'.repeat(70000));".to_owned(),
        }
    }
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn step() -> impl Strategy<Value = Step> {
    let path = prop::sample::select(&["/items", "/config", "/items/missing", "/fails"][..]);
    prop_oneof![
        4 => (path, 1_u8..10).prop_map(|(path, times)| Step::Read(path, times)),
        4 => (1_u8..30).prop_map(Step::Items),
        2 => (0_u8..9, ".{0,20}").prop_map(|(item, text)| Step::Write(item, text)),
        1 => (1_u8..4).prop_map(Step::Refused),
        2 => ".{0,20}".prop_map(Step::Print),
        1 => ".{0,20}".prop_map(Step::Complain),
        1 => (0_u16..9_999).prop_map(Step::Wait),
        1 => Just(Step::Throw),
        1 => Just(Step::Reject),
        1 => any::<u8>().prop_map(Step::Exit),
        1 => Just(Step::Flood),
    ]
}

fn grant(api: &Api) -> Grant {
    let allow = [
        "GET /items",
        "GET /items/*",
        "PUT /items/*",
        "GET /config",
        "GET /fails",
    ];
    let mut spec = spec(api, &allow);
    spec.max_calls = 60;
    spec.validate().unwrap()
}

fn profile(api: &Api, audience: Audience) -> Profile {
    let route = |path| Route::new("GET", path).unwrap();
    let batch_of = BTreeMap::from([(route("/items/*"), route("/items"))]);
    Profile::direct("berths", grant(api)).with_advice(Vec::new(), batch_of, audience)
}

fn api() -> Api {
    Api::start(|asked: &Asked| match asked.path() {
        "/items/missing" => Reply::Json(404, "{\"missing\":true}".to_owned()),
        "/fails" => Reply::Json(500, "sorry".to_owned()),
        path => ok(format!("{{\"path\":\"{path}\",\"body\":{}}}", asked.body.len())),
    })
}

/// Everything of a run but its times and its advice.
fn outcome(run: &Run) -> impl PartialEq + std::fmt::Debug + use<> {
    let calls = run.calls.as_ref().map(|trace| {
        let row = |row: &plimsoll::grants::CallRow| {
            (
                row.seq,
                row.route().clone(),
                row.status,
                row.delivered,
                row.req_bytes,
                row.resp_bytes,
            )
        };
        let rows: Vec<_> = trace.rows.iter().map(row).collect();
        (rows, trace.dropped, trace.denied, trace.shed, trace.budget_refused)
    });
    let diagnostics = &run.diagnostics;
    (
        (run.stdout.clone(), run.stderr.clone(), run.exit_code, run.timed_out),
        (
            run.stdout_truncated,
            run.stderr_truncated,
            run.tier,
            run.environment.clone(),
        ),
        (run.record.request_sha256.clone(), run.record.result_sha256.clone()),
        (
            diagnostics.limit_hit,
            diagnostics.trap,
            diagnostics.stdout_bytes,
            diagnostics.stderr_bytes,
        ),
        calls,
    )
}

#[test]
fn a_run_is_the_same_whoever_is_told_of_its_calls() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let api = api();
    let mut advised = 0_usize;
    let told = std::cell::RefCell::new(&mut advised);
    TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(60)
    })
    .run(&vec(step(), 1..7), |steps| {
        let code: Vec<String> = steps.iter().map(Step::javascript).collect();
        let code = code.join("\n");
        let runs = AUDIENCES.map(|audience| runtime.block_on(with_profile(profile(&api, audience), &code)));
        let [off, operator, caller] = &runs;
        prop_assert_eq!(outcome(off), outcome(operator));
        prop_assert_eq!(outcome(off), outcome(caller));
        prop_assert!(off.advice.is_empty() && operator.advice.is_empty());
        **told.borrow_mut() += usize::from(!caller.advice.is_empty());
        Ok(())
    })
    .unwrap();
    assert!(
        advised >= 5,
        "advice was given in {advised} cases only: the programs prove little"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_caller_who_may_be_told_is_told() {
    let api = api();
    let code = "for (let i = 0; i < 7; i++) await host.get('/items/' + i)";
    let mut told = Vec::new();
    for audience in AUDIENCES {
        told.push(with_profile(profile(&api, audience), code).await.advice);
    }
    assert!(told[0].is_empty() && told[1].is_empty());
    let [finding] = told[2].as_slice() else {
        panic!("{:?}", told[2])
    };
    assert_eq!((finding.pattern.as_str(), finding.extra_calls), ("fan_out", 6));
    assert_eq!(
        (finding.suggested_method.as_str(), finding.suggested_route.as_str()),
        ("GET", "/items")
    );
}
