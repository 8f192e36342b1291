//! Grants in a container: through its one socket, and with nothing of the credential inside.

use plimsoll::Project;

use crate::support::{printed, prints, run, sandbox, steps};
use crate::upstream::{TOKEN, Upstream};

/// Searches everything a guest can read for the credential without holding it itself: `CODES` are its characters plus one.
/// A word made up in the guest shows that the search finds what is there.
const SEARCH: &str = r"
const fs = require('fs');
const decoy = Buffer.from(Array.from({ length: 24 }, () => 97 + Math.floor(Math.random() * 26)));
const words = { credential: CODES, decoy: Array.from(decoy, (byte) => byte + 1) };
const found = { credential: [], decoy: [] };
const look = (where, bytes) => {
  for (const [word, codes] of Object.entries(words)) {
    const start = Buffer.from([codes[0] - 1, codes[1] - 1]);
    for (let at = bytes.indexOf(start); at >= 0; at = bytes.indexOf(start, at + 1))
      if (codes.every((code, index) => bytes[at + index] === code - 1)) { found[word].push(where); break; }
  }
};
fs.writeFileSync('/tmp/decoy', decoy);
const open = (path) => { try { look(path, fs.readFileSync(path)); } catch {} };
for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
  for (const name of ['environ', 'cmdline', 'status']) open(`/proc/${pid}/${name}`);
for (const folder of ['/tmp', '/tmp/plimsoll-python', '/dev/shm', '/run', '/work', '/etc'].filter(fs.existsSync))
  for (const name of fs.readdirSync(folder)) {
    const path = `${folder}/${name}`;
    if (fs.statSync(path, { throwIfNoEntry: false })?.isFile()) open(path);
  }
const memory = fs.openSync('/proc/self/mem', 'r');
for (const line of fs.readFileSync('/proc/self/maps', 'utf8').split('\n')) {
  const match = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line);
  if (!match) continue;
  const [from, to] = [Number(`0x${match[1]}`), Number(`0x${match[2]}`)];
  if (to - from > 64 << 20) continue;
  const bytes = Buffer.alloc(to - from);
  try { fs.readSync(memory, bytes, 0, to - from, from); } catch { continue; }
  look('memory', bytes);
}
console.log(found.credential.join(), found.decoy.includes('/tmp/decoy'), found.decoy.includes('memory'));
";

fn search() -> String {
    let codes: Vec<u32> = TOKEN.bytes().map(|byte| u32::from(byte) + 1).collect();
    SEARCH.replace("CODES", &format!("{codes:?}"))
}

/// No place of the credential, and both places of the made-up word.
const FOUND_NOTHING: &str = " true true\n";

#[test]
fn a_snippets_call_reaches_the_api_once_with_a_credential_that_is_nowhere_in_the_guest() {
    run(async {
        let upstream = Upstream::start().await;
        let code = format!(
            "const answer = await host.get('/berths/7');\nconsole.log(answer.asked, process.env.HOST_API_SOCKET);\n\
             {}",
            search().replace("const fs = require('fs');", "const fs = await import('node:fs');")
        );
        let call = sandbox().await.run_javascript(code).any_tier();
        let ran = call
            .grant(upstream.grant(&["GET /berths/*"], 10), "tester")
            .unwrap()
            .send()
            .await
            .unwrap();
        assert_eq!(
            ran.stdout_text(),
            format!("GET /berths/7 /run/host-api.sock\n{FOUND_NOTHING}"),
            "{}",
            ran.stderr_text()
        );
        let heads = upstream.heads();
        assert_eq!(heads.len(), 1, "{heads:?}");
        assert!(heads[0].contains(&format!("Bearer {TOKEN}")), "{heads:?}");
        let calls = ran.calls.unwrap();
        assert_eq!((calls.rows.len(), calls.rows[0].status, calls.denied), (1, 200, 0));
    });
}

#[test]
fn a_step_calls_through_the_global_and_any_process_through_the_socket() {
    run(async {
        let upstream = Upstream::start().await;
        let raw = "require('http').get({ socketPath: process.env.HOST_API_SOCKET, path: '/berths/raw' }, (answer) => {
                     answer.on('data', (data) => process.stdout.write(data)); })";
        let project = Project::new()
            .file(
                "a.mjs",
                "console.log((await host.get('/berths/1')).asked, (await host.post('/berths/2', { a: 1 })).asked);\n",
            )
            .file("raw.cjs", raw)
            .file("search.cjs", search())
            .step("node a.mjs")
            .step("node raw.cjs")
            .step("node search.cjs")
            .step("tr '\\0' '\\n' < /proc/$$/environ | grep -E '^(HOST_API_SOCKET|NODE_OPTIONS|PYTHONPATH)=' | sort");
        let ran = upstream.berths(sandbox().await, project).await;
        assert_eq!(
            printed(&ran.steps),
            [
                "GET /berths/1 POST /berths/2\n",
                "{\"asked\":\"GET /berths/raw\"}",
                FOUND_NOTHING,
                "HOST_API_SOCKET=/run/host-api.sock\nNODE_OPTIONS=--import=file:///tmp/plimsoll-host.mjs\n\
                 PYTHONPATH=/tmp/plimsoll-python\n",
            ]
        );
        assert_eq!(upstream.lines(), ["GET /berths/1", "POST /berths/2", "GET /berths/raw"]);
        assert_eq!(ran.calls.unwrap().rows.len(), 3);
    });
}

/// What the socket answers without the client in between.
const RAW: &str = "
const http = require('http');
const ask = (path) => new Promise((done) => http.get({ socketPath: '/run/host-api.sock', path }, (answer) => {
  answer.resume(); done(answer.statusCode); }).on('error', (error) => done(error.code)));
";

#[test]
fn without_a_grant_the_socket_answers_503_and_nothing_names_it() {
    run(async {
        let code = format!(
            "{RAW} ask('/berths/1').then((status) => console.log(status, process.env.HOST_API_SOCKET, typeof host))"
        );
        assert_eq!(prints(&code).await, "503 undefined undefined\n");
        let step = format!("node -e \"{code}\"; env | grep -c -E 'HOST_API|NODE_OPTIONS|PYTHONPATH'; ls /tmp");
        let result = steps(&[&step]).await;
        assert_eq!(
            String::from_utf8_lossy(&result.steps[0].stdout),
            "503 undefined undefined\n0\n"
        );
    });
}

#[test]
fn a_route_outside_the_grant_never_reaches_the_api() {
    run(async {
        let upstream = Upstream::start().await;
        let code = format!(
            "{RAW} (async () => {{
               console.log(await host.get('/secret').catch((error) => error.message.split('\\n')[0]));
               console.log(await ask('/secret'), await ask('/berths/../secret'), await ask('/berths/%2e%2e/secret'));
               console.log(await host.del('/berths/1').catch((error) => error.message.split('\\n')[0]));
             }})()"
        );
        let call = sandbox().await.run_javascript(code).any_tier();
        let ran = call
            .grant(upstream.grant(&["GET /berths/*"], 10), "tester")
            .unwrap()
            .send()
            .await
            .unwrap();
        let printed = ran.stdout_text().into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), 3, "{printed}{}", ran.stderr_text());
        assert!(lines[0].starts_with("host api call not permitted"), "{printed}");
        assert_eq!(lines[1], "403 403 403", "{printed}");
        assert!(lines[2].starts_with("host api call not permitted"), "{printed}");
        assert!(upstream.lines().is_empty(), "{:?}", upstream.lines());
        assert_eq!(ran.calls.unwrap().denied, 3);
    });
}

#[test]
fn a_used_up_budget_ends_the_calls_and_not_the_run() {
    run(async {
        let upstream = Upstream::start().await;
        let code = "
            for (const berth of [1, 2, 3]) {
              const told = await host.get(`/berths/${berth}`).then((answer) => answer.asked, (error) => error.status);
              console.log(told);
            }
            console.log('goes on');";
        let call = sandbox().await.run_javascript(code).any_tier();
        let ran = call
            .grant(upstream.grant(&["GET /berths/*"], 2), "tester")
            .unwrap()
            .send()
            .await
            .unwrap();
        assert_eq!(
            ran.stdout_text(),
            "GET /berths/1\nGET /berths/2\n429\ngoes on\n",
            "{}",
            ran.stderr_text()
        );
        assert_eq!((upstream.lines().len(), ran.exit_code), (2, 0));
        assert!(ran.calls.unwrap().budget_refused);
    });
}

#[test]
fn an_uncaught_refusal_is_the_programs_own_failure() {
    run(async {
        let upstream = Upstream::start().await;
        let call = sandbox().await.run_javascript("await host.get('/secret')").any_tier();
        let ran = call
            .grant(upstream.grant(&["GET /berths/*"], 2), "tester")
            .unwrap()
            .send()
            .await
            .unwrap();
        assert_eq!(ran.exit_code, 1);
        assert!(
            ran.stderr_text().contains("host api call not permitted"),
            "{}",
            ran.stderr_text()
        );
    });
}
