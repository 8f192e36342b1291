//! Granted runs from their credential to their end, however they end.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api::{Api, Reply, ok};
use super::setup::{BOB, Call, Files, from_base64, metrics, profile, series};

fn jwt() -> Value {
    json!({
        "token": {"type": "jwt", "secret_env": "API_SECRET", "audience": "berth-api", "key_id": "k1"},
        "scopes": ["berths:read", "berths:write"],
        "allowed_callers": ["*"],
    })
}

#[test]
fn every_member_of_the_client_reaches_the_api_with_the_credential_of_the_profile() {
    let api = Api::echoing_paths();
    let routes = ["GET /b/*", "PUT /b/*", "POST /b/*", "PATCH /b/*", "DELETE /b/*"];
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &routes, &json!({"global": "port"})) }));
    let daemon = files.start(&[]);
    let code = "const all = [await port.get('/b/1'), await port.put('/b/2', {a: 1}), await port.post('/b/3', null),
            await port.patch('/b/4', []), await port.del('/b/5'), await port.call('post', '/b/6')];
        console.log(all.map((answer) => answer.path).join());";
    let (_, printed) = Call::of("berths", code).ran(daemon.addr);
    assert_eq!(printed, "/b/1,/b/2,/b/3,/b/4,/b/5,/b/6\n");
    let asked = api.asked();
    let sent: Vec<(&str, &str)> = asked
        .iter()
        .map(|asked| (asked.line.as_str(), asked.body.as_str()))
        .collect();
    assert_eq!(
        sent,
        [
            ("GET /b/1", ""),
            ("PUT /b/2", "{\"a\":1}"),
            ("POST /b/3", "null"),
            ("PATCH /b/4", "[]"),
            ("DELETE /b/5", ""),
            ("POST /b/6", ""),
        ]
    );
    let bearer = format!("Bearer {}", super::setup::STATIC);
    for asked in &asked {
        assert_eq!(asked.header("authorization"), Some(bearer.as_str()), "{asked:?}");
        assert_eq!(
            asked.header("content-type").is_some(),
            !asked.body.is_empty(),
            "{asked:?}"
        );
    }
}

#[test]
fn a_jwt_names_the_caller_and_is_minted_once_a_run() {
    let api = Api::echoing_paths();
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /b/*"], &jwt()) }));
    let daemon = files.start(&[]);
    let code = "await host.get('/b/1'); await host.get('/b/2')";
    Call::of("berths", code).ran(daemon.addr);
    let as_bob = Call {
        token: Some(BOB.1),
        ..Call::of("berths", code)
    };
    as_bob.ran(daemon.addr);
    let asked = api.asked();
    let tokens: Vec<&str> = asked
        .iter()
        .map(|asked| asked.header("authorization").unwrap().strip_prefix("Bearer ").unwrap())
        .collect();
    assert_eq!((tokens[0], tokens[2]), (tokens[1], tokens[3]), "one token a run");
    assert_ne!(tokens[0], tokens[2], "another run, another token");
    for (token, subject) in [(tokens[0], "alice"), (tokens[2], "bob")] {
        let claims: Value = serde_json::from_slice(&from_base64(token.split('.').nth(1).unwrap())).unwrap();
        assert_eq!((&claims["sub"], &claims["aud"]), (&subject.into(), &"berth-api".into()));
        assert_eq!(claims["scope"], "berths:read berths:write");
        // The default timeout of 5 s and 5 s more are less than the default lifetime.
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 10);
    }
}

#[test]
fn a_preamble_from_a_file_beside_the_grants_file_runs_before_the_program() {
    let api = Api::echoing_paths();
    let more = json!({"preamble_file": "sdk.js"});
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /b/*"], &more) }));
    fs_err::write(files.path("sdk.js"), "host.berth = (id) => host.get('/b/' + id)").unwrap();
    let daemon = files.start(&[]);
    let (_, printed) = Call::of("berths", "console.log((await host.berth(7)).path)").ran(daemon.addr);
    assert_eq!(printed, "/b/7\n");
}

#[test]
fn a_refused_call_budget_is_a_limit_that_was_hit_and_a_routes_cap_is_none() {
    let api = Api::start(|_| ok("{}"));
    let allow = ["GET /b/*"];
    let files = Files::new(&json!({
        "budget": profile(&api.origin(), &allow, &json!({"max_calls": 3})),
        "capped": profile(&api.origin(), &allow, &json!({"route_max_calls": {"GET /b/*": 3}})),
    }));
    let daemon = files.start(&[]);
    let calls = |count: u32| {
        format!(
            "const seen = []; for (let i = 0; i < {count}; i++)
                await host.get('/b/' + i).then(() => seen.push(200), (error) => seen.push(error.status));
            console.log(seen.join())"
        )
    };
    let limit = |answer: &Value| {
        answer["diagnostics"]["limitHit"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (answer, printed) = Call::of("budget", &calls(5)).ran(daemon.addr);
    assert_eq!(
        (printed.as_str(), limit(&answer).as_str()),
        ("200,200,200,429,429\n", "host_calls")
    );
    let (answer, printed) = Call::of("budget", &calls(3)).ran(daemon.addr);
    assert_eq!((printed.as_str(), limit(&answer).as_str()), ("200,200,200\n", ""));
    let (answer, printed) = Call::of("capped", &calls(5)).ran(daemon.addr);
    assert_eq!(
        (printed.as_str(), limit(&answer).as_str()),
        ("200,200,200,429,429\n", "")
    );
    // Dropped output is the lesser of the two.
    let code = format!("{}; console.log('x'.repeat(100000))", calls(4));
    let (answer, _) = Call::of("budget", &code).ran(daemon.addr);
    assert_eq!(
        (&answer["javascript"]["stdoutTruncated"], limit(&answer).as_str()),
        (&true.into(), "host_calls")
    );
    // Each run has a budget of its own.
    assert_eq!(api.asked().len(), 12);
}

#[test]
fn the_calls_of_a_run_that_times_out_are_traced_and_counted() {
    let api = Api::start(|_| ok("{}"));
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /b/*"], &json!({})) }));
    let mut daemon = files.start(&[]);
    let call = Call {
        timeout_ms: 1_000,
        ..Call::of("berths", "await host.get('/b/1'); await host.get('/b/2'); for (;;);")
    };
    let (status, answer, _) = call.send(daemon.addr);
    assert_eq!(
        (status, &answer["javascript"]["timedOut"]),
        (200, &true.into()),
        "{answer}"
    );
    let line = daemon.wait_for("code run");
    assert_eq!((&line["timed_out"], &line["host_calls"]), (&true.into(), &2.into()));
    let page = metrics(&daemon);
    assert_eq!(
        series(&page, "plimsoll_host_calls_total"),
        ["plimsoll_host_calls_total{profile=\"berths\",method=\"GET\",route=\"/b/*\"} 2"]
    );
}

#[test]
fn a_call_in_progress_ends_with_the_runs_deadline_and_has_its_row() {
    let api = Api::start(|_| Reply::Never);
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /b/*"], &json!({})) }));
    let mut daemon = files.start(&[]);
    let call = Call {
        timeout_ms: 500,
        ..Call::of("berths", "await host.get('/b/1')")
    };
    let started = Instant::now();
    let (status, answer, _) = call.send(daemon.addr);
    assert_eq!(
        (status, &answer["javascript"]["timedOut"]),
        (200, &true.into()),
        "{answer}"
    );
    assert_eq!(answer["javascript"]["exitCode"], 124);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(daemon.wait_for("code run")["host_calls"], 1);
}

#[test]
fn the_calls_of_a_run_whose_caller_went_away_are_traced_and_counted() {
    let api = Api::start(|asked| match asked.path() {
        "/b/slow" => Reply::Never,
        _ => ok("{}"),
    });
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /b/*"], &json!({})) }));
    let mut daemon = files.start(&[]);
    let call = Call {
        timeout_ms: 30_000,
        ..Call::of("berths", "await host.get('/b/1'); await host.get('/b/slow')")
    };
    let mut stream = TcpStream::connect(daemon.addr).unwrap();
    let body = call.body();
    write!(
        stream,
        "{}Host: test\r\nContent-Length: {}\r\n\r\n{body}",
        call.head(),
        body.len()
    )
    .unwrap();
    api.wait_for(2);
    drop(stream);
    let line = daemon.wait_for("code run failed");
    assert_eq!(
        (&line["grant_profile"], &line["host_calls"]),
        (&"berths".into(), &2.into())
    );
    let page = metrics(&daemon);
    assert_eq!(
        series(&page, "plimsoll_host_calls_total"),
        ["plimsoll_host_calls_total{profile=\"berths\",method=\"GET\",route=\"/b/*\"} 2"]
    );
}
