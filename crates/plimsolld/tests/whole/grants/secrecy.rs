//! The credential is with the API and nowhere else: not in an answer, a stream, a log line or a metric.

use rustix::process::Signal;
use serde_json::json;

use super::api::{Api, Asked, Reply, ok};
use super::setup::{BOB, Call, Files, SECRET, STATIC, metrics, profile, stream};

/// Prints whatever a program can reach: its globals to some depth, sources, errors, the environment.
const LOOK_EVERYWHERE: &str = r"
    const seen = new Set(), out = [];
    const look = (value, depth) => {
        if (value === null || (typeof value !== 'object' && typeof value !== 'function')) { out.push(String(value)); return }
        if (seen.has(value) || depth > 6) return;
        seen.add(value);
        if (typeof value === 'function') out.push(Function.prototype.toString.call(value));
        for (const key of Reflect.ownKeys(value)) {
            out.push(String(key));
            let member;
            try { member = value[key] } catch (error) { out.push(String(error), String(error.stack)); continue }
            try { look(member, depth + 1) } catch (error) { out.push(String(error)) }
        }
    };
    for (const path of ['/b/1', '/b/echo', '/b/cookie', '/b/401', '/b/302', '/b/never?x', '/other'])
        await host.get(path).then(look, (error) => { out.push(String(error.stack), error.status, error.body); look(error, 0) });
    for (const text of ['', '{', '[]', '{\'method\':1}', '{\'method\':\'GET\',\'path\':\'/other\'}'])
        look(__plimsoll_host_call(text.replaceAll('\'', '\x22')), 0);
    look(globalThis, 0);
    look(process, 0);
    const whole = out.join('\n');
    console.error(out.length > 1000, whole.includes('berth-answer'), /bearer/i.test(whole));
    const hidden = HIDDEN.map((parts) => parts.join(''));
    console.log(hidden.map((text) => whole.includes(text)).join());
    process.stdout.write(whole.slice(0, 60000));
";

#[test]
fn the_credential_reaches_the_api_and_nobody_else() {
    let script = |asked: &Asked| {
        let sent = asked.header("authorization").unwrap_or_default().to_owned();
        match asked.path() {
            "/b/echo" => ok(format!("{{\"you sent\":\"{sent}\"}}")),
            "/b/cookie" => Reply::With(200, "Set-Cookie: sid=9f8e7d\r\n", "{}".to_owned()),
            "/b/401" => Reply::Json(401, format!("{{\"rejected\":\"{sent}\"}}")),
            "/b/302" => Reply::With(302, "Location: /b/echo\r\n", sent),
            _ => ok("{\"berth-answer\":1}"),
        }
    };
    let api = Api::start(script);
    let jwt = json!({
        "token": {"type": "jwt", "secret_env": "API_SECRET", "audience": "berth-api"},
        "allowed_callers": ["*"],
        "advice": "caller",
        "advice_retention": "detailed",
    });
    let files = Files::new(&json!({
        "fixed": profile(&api.origin(), &["GET /b/*"], &json!({"allowed_callers": ["*"]})),
        "minted": profile(&api.origin(), &["GET /b/*"], &jwt),
    }));
    let mut daemon = files.start(&[]);
    // Halves, so that the program does not hold what it looks for.
    let halves = |text: &str| {
        let (a, b) = text.split_at(text.len() / 2);
        json!([a, b])
    };
    let code = LOOK_EVERYWHERE.replace(
        "HIDDEN",
        &json!([halves(STATIC), halves(SECRET), ["sid=", "9f8e7d"]]).to_string(),
    );
    let mut texts = Vec::new();
    for name in ["fixed", "minted", "nobody's"] {
        for caller in [super::setup::ALICE, BOB] {
            let call = Call {
                token: Some(caller.1),
                timeout_ms: 20_000,
                ..Call::of(name, &code)
            };
            let (status, answer, raw) = call.send(daemon.addr);
            texts.push(raw);
            if name == "nobody's" {
                assert_eq!(status, 403);
                continue;
            }
            let (stdout, stderr) = (stream(&answer, "stdout"), stream(&answer, "stderr"));
            assert_eq!(stderr, "true true false\n", "{stdout}");
            assert!(stdout.starts_with("false,false,false\n"), "{stdout}");
            texts.extend([stdout, stderr]);
        }
    }
    texts.push(metrics(&daemon));
    daemon.signal(Signal::TERM);
    let started = daemon.records.clone();
    texts.extend(started.iter().map(ToString::to_string));
    daemon.records.clear();
    let (status, records) = daemon.wait();
    assert!(status.success());
    texts.extend(records.iter().map(ToString::to_string));

    let mut secrets = vec![STATIC.to_owned(), SECRET.to_owned()];
    let asked = api.asked();
    assert!(asked.len() >= 16, "{:?}", api.lines());
    for asked in asked {
        let sent = asked.header("authorization").unwrap();
        secrets.push(sent.strip_prefix("Bearer ").unwrap().to_owned());
    }
    secrets.sort();
    secrets.dedup();
    assert_eq!(
        secrets.len(),
        4,
        "the static one, the signing secret, and a token for each minted run"
    );
    for secret in secrets {
        for text in &texts {
            assert!(!text.contains(&secret), "{secret} stands in {text}");
        }
    }
}
