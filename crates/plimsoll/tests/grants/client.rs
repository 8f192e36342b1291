//! The client of a grant, as a program finds it: what each member sends, and what comes back.

use crate::api::{Api, Asked, Reply, ok};
use crate::setup::{EVERY_VERB, prints, run, spec};

#[tokio::test(flavor = "multi_thread")]
async fn each_member_sends_its_verb_and_its_body() {
    let api = Api::start(|_| ok("1"));
    let code = "
        console.log(Object.keys(host).join());
        const body = {a: [1, 'é', null], b: undefined};
        for (const member of ['put', 'post', 'patch']) {
            await host[member]('/b/' + member);
            await host[member]('/b/' + member, body);
        }
        await host.get('/b/get', body);
        await host.del('/b/del', body);
        await host.call('GET', '/b/call', body);
        await host.call('delete', '/b/call', body);
        await host.call('PaTcH', {toString: () => '/b/text'});
        console.log([host.get, host.put, host.post, host.patch, host.del, host.call]
            .every((member) => member.call(undefined, '/b/1', '/b/1') instanceof Promise));";
    let printed = prints(
        spec(&api, &EVERY_VERB).validate().unwrap(),
        &format!("{code}\nprocess.exit(0)"),
    )
    .await;
    assert_eq!(printed, "call,get,put,post,patch,del\ntrue\n");
    let sent: Vec<String> = api
        .asked()
        .into_iter()
        .take(11)
        .map(|asked| format!("{} {}", asked.line, asked.body))
        .collect();
    let json = "{\"a\":[1,\"é\",null]}";
    let expected = [
        "PUT /b/put ",
        "PUT /b/put {}",
        "POST /b/post ",
        "POST /b/post {}",
        "PATCH /b/patch ",
        "PATCH /b/patch {}",
        "GET /b/get ",
        "DELETE /b/del ",
        "GET /b/call {}",
        "DELETE /b/call {}",
        "PATCH /b/text ",
    ];
    assert_eq!(sent, expected.map(|line| line.replace("{}", json)));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_and_a_null_body_are_two_things_and_what_is_no_json_is_not_sent() {
    let api = Api::start(|_| ok("1"));
    let code = "
        for (const body of [undefined, null, false, 0, '', NaN, [], new Date(0), {toJSON: () => 'own'}])
            await host.post('/b/1', body);
        const round = {}; round.round = round;
        for (const body of [() => 1, Symbol('x'), 10n, round, {toJSON() { throw new Error('mine') }}])
            await host.post('/b/2', body).then(() => console.log('sent'), (error) => console.log(error.name));";
    let run = run(spec(&api, &EVERY_VERB).validate().unwrap(), code).await;
    assert_eq!(
        run.stdout_text(),
        "TypeError\nTypeError\nTypeError\nTypeError\nError\n",
        "{}",
        run.stderr_text()
    );
    let bodies: Vec<String> = api.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(
        bodies,
        [
            "",
            "null",
            "false",
            "0",
            "\"\"",
            "null",
            "[]",
            "\"1970-01-01T00:00:00.000Z\"",
            "\"own\""
        ]
    );
    // What was not sent spent nothing and left no row.
    assert_eq!(run.calls.unwrap().rows.len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_is_its_json_or_its_text() {
    let script = |asked: &Asked| match asked.path() {
        "/b/json" => ok("{\"berth\":[7,null]}"),
        "/b/number" => Reply::Bytes("text/plain", b" 42 ".to_vec()),
        "/b/null" => ok("null"),
        "/b/text" => Reply::Bytes("application/json", b"berth seven".to_vec()),
        "/b/open" => ok("{\"berth\":"),
        "/b/empty" => ok(""),
        "/b/201" => Reply::Json(201, "{}".to_owned()),
        "/b/204" => Reply::Json(204, String::new()),
        "/b/299" => Reply::Json(299, "\"odd\"".to_owned()),
        "/b/bytes" => Reply::Bytes("image/png", b"\xff\x00a\xc3\xa9".to_vec()),
        "/b/marked" => Reply::Bytes("application/json", b"\xef\xbb\xbf{}".to_vec()),
        other => panic!("{other}"),
    };
    let api = Api::start(script);
    let code = "
        for (const name of ['json', 'number', 'null', 'text', 'open', 'empty', '201', '204', '299', 'bytes'])
            console.log(name, JSON.stringify(await host.get('/b/' + name)));";
    assert_eq!(
        prints(spec(&api, &EVERY_VERB).validate().unwrap(), code).await,
        "json {\"berth\":[7,null]}\nnumber 42\nnull null\ntext \"berth seven\"\nopen \"{\\\"berth\\\":\"\nempty \"\"\n201 {}\n\
         204 \"\"\n299 \"odd\"\nbytes \"\u{fffd}\\u0000aé\"\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_error_with_the_required_message_its_status_and_its_body() {
    let script = |asked: &Asked| match asked.path() {
        "/b/302" => Reply::With(302, "Location: /b/302\r\nX-Secret: 1\r\n", "moved".to_owned()),
        path => Reply::Json(path[3..].parse().unwrap(), "{\"why\":\"é\"}".to_owned()),
    };
    let api = Api::start(script);
    let code = "
        for (const status of [302, 304, 400, 404, 500, 599])
            await host.get('/b/' + status).then(() => console.log('?'), (error) =>
                console.log(error instanceof Error, error.name, error.message, typeof error.status, error.status, error.body,
                    Object.keys(error).join()));";
    let printed = prints(spec(&api, &EVERY_VERB).validate().unwrap(), code).await;
    let line =
        |status: u16, body: &str| format!("true Error host api {status}: {body} number {status} {body} status,body\n");
    let expected = [
        line(302, "moved"),
        // An answer of this status has no body, whatever its length says.
        line(304, ""),
        line(400, "{\"why\":\"é\"}"),
        line(404, "{\"why\":\"é\"}"),
        line(500, "{\"why\":\"é\"}"),
        line(599, "{\"why\":\"é\"}"),
    ];
    for expected in expected.iter().filter(|line| !line.contains("304")) {
        assert!(printed.contains(expected), "{expected} not in\n{printed}");
    }
    assert_eq!(
        api.lines().iter().filter(|line| line.contains("302")).count(),
        1,
        "no redirect is followed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_the_grant_does_not_permit_is_refused_early_by_method_and_path_and_costs_nothing() {
    let api = Api::start(|_| ok("1"));
    let code = "
        const tell = (error) => console.log(error instanceof Error, error.message, error.status, error.body);
        await host.get('/other').catch(tell);
        await host.call('post', '/b/1?x=1').catch(tell);
        await host.call('HEAD', '/b/1').catch(tell);
        await host.get().catch(tell);
        await host.get('/b/' + 'x'.repeat(9000)).catch((error) => console.log(error.message.length));
        await host.call({toString() { throw new RangeError('mine') }}, '/b/1').catch(tell);";
    let run = run(spec(&api, &["GET /b/*", "POST /b/*"]).validate().unwrap(), code).await;
    assert_eq!(
        run.stdout_text(),
        "true host api call not permitted: GET /other undefined undefined\n\
         true host api call not permitted: POST /b/1?x=1 undefined undefined\n\
         true host api call not permitted: HEAD /b/1 undefined undefined\n\
         true host api call not permitted: GET undefined undefined undefined\n\
         9036\n\
         true mine undefined undefined\n",
        "{}",
        run.stderr_text()
    );
    assert_eq!((run.calls, api.asked().len()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_nobody_catches_ends_the_program_with_its_message_and_the_clients_name() {
    let api = Api::start(|_| Reply::Json(404, "no such berth".to_owned()));
    let run = run(spec(&api, &EVERY_VERB).validate().unwrap(), "\nawait host.get('/b/1')").await;
    assert_eq!(run.exit_code, 1);
    let stderr = run.stderr_text();
    for words in ["host api 404: no such berth", "host.js:", "status: 404"] {
        assert!(stderr.contains(words), "{words} not in\n{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_breaks_the_client_still_meets_the_broker() {
    let api = Api::start(|_| ok("1"));
    let code = "
        Array.prototype.some = Array.prototype.every = () => true;
        RegExp.prototype.test = () => true;
        String.prototype.includes = () => false;
        Object.prototype.m = 'GET'; Object.prototype.p = '/other';
        for (const path of ['/other', '/b/1/2', '/b/%2e', '/b/x?y', '/b/1;x'])
            await host.get(path).then(() => console.log('sent'), (error) => console.log(error.status, error.message.slice(0, 14)));";
    let run = run(spec(&api, &EVERY_VERB).validate().unwrap(), code).await;
    assert_eq!(
        run.stdout_text(),
        "403 host api 403: \n".repeat(5),
        "{}",
        run.stderr_text()
    );
    assert_eq!((run.calls.unwrap().denied, api.asked().len()), (5, 0));
}
