//! The clients as real programs run them: Node and Python on a container's socket.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use plimsoll_broker::{BrokerOptions, node_client, node_module, python_client, snippet_client};
use plimsoll_grants::grant::{Grant, GrantSpec};
use plimsoll_grants::route::{Method, Target};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use crate::guest::Container;
use crate::support::{Run, Script, Step, answer, spec};

/// Runs the client as a container does, a script without `require`, then a program that may await.
const LAUNCH: &str = r#"
const [, client, program, socket] = process.argv;
const { runInThisContext } = require("node:vm");
const read = (path) => require("node:fs").readFileSync(path, "utf8");
runInThisContext(read(client), { filename: "client.js" });
globalThis.inside = process.env.HOST_API_SOCKET;
if (socket) process.env.HOST_API_SOCKET = socket; else delete process.env.HOST_API_SOCKET;
runInThisContext("(async () => {" + read(program) + "\n})()", { filename: "program.js" });
"#;

/// Prints what a call came to.
const TELL: &str = r#"
const tell = async (call) => {
  try { console.log(JSON.stringify(await call())); }
  catch (error) { console.log(error.constructor.name + " " + error.message + " | " + error.status + " | " + error.body); }
};
"#;

const TELL_PYTHON: &str = r#"
import json
from plimsoll_host import HostError, host
def tell(call):
    try: print(json.dumps(call()))
    except Exception as error:
        print(type(error).__name__, error, "|", getattr(error, "status", "-"), "|", getattr(error, "body", "-"))
"#;

/// The interpreter a suite names, or the one that is installed.
#[expect(clippy::disallowed_methods, reason = "suites name the interpreters they fetched")]
fn interpreter(variable: &str, default: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| default.into())
}

#[expect(clippy::disallowed_methods, reason = "the client runs in programs")]
fn command(program: &OsString) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .env_remove("NODE_OPTIONS")
        .env_remove("HOST_API_SOCKET");
    command
}

fn node() -> Command {
    let node = interpreter("NODE", "node");
    let version = command(&node)
        .arg("--version")
        .output()
        .expect("node runs; set NODE to one");
    let version = String::from_utf8(version.stdout).unwrap();
    let major: u32 = version[1..].split('.').next().unwrap().parse().unwrap();
    assert!(
        major >= 22,
        "the client needs node 22 or later, not {version}; set NODE to one"
    );
    command(&node)
}

fn python() -> Command {
    command(&interpreter("PYTHON", "python3"))
}

/// Files of one test, and what runs them.
struct Programs {
    folder: TempDir,
}

impl Programs {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str) -> OsString {
        let path = self.folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        path.into_os_string()
    }

    /// A snippet in Node: client, then program.
    fn snippet(&self, client: &str, program: &str, socket: &Path) -> Command {
        let mut node = node();
        let (client, program) = (self.write("client.js", client), self.write("program.js", program));
        node.args(["-e", LAUNCH]).args([client, program]).arg(socket);
        node
    }

    /// A step that runs Python.
    fn python(&self, grant: &Grant, program: &str) -> Command {
        self.write("plimsoll_host.py", &python_client(grant));
        let mut python = python();
        python
            .env("PYTHONPATH", self.folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        python.args(["-c", &(TELL_PYTHON.to_owned() + program)]);
        python
    }
}

/// Runs it on another thread: this one serves the socket.
async fn run(mut command: Command) -> String {
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    String::from_utf8(stdout).unwrap()
}

/// Answers with what it was sent, or with what the path asks for.
async fn echo() -> Script {
    Script::start(|seen| {
        let path = seen.line().split(' ').nth(1).unwrap();
        let bytes = match path.strip_prefix("/say/").unwrap_or("") {
            "empty" => answer(200, "", ""),
            "text" => answer(200, "", "plain {text"),
            "bom" => answer(200, "", "\u{feff}1"),
            "bytes" => answer(200, "", b"\xffa"),
            "nan" => answer(200, "", "NaN"),
            "deep" => answer(200, "", "[".repeat(100_000)),
            "none" => b"HTTP/1.1 204 X\r\n\r\n".to_vec(),
            "missing" => answer(404, "Content-Type: application/json\r\n", r#"{"no":"such — berth"}"#),
            "moved" => answer(302, "Location: /say/text\r\n", "elsewhere"),
            _ => answer(
                200,
                "",
                format!(
                    "[\"{}\",{}]",
                    seen.line(),
                    if seen.body.is_empty() {
                        "-".into()
                    } else {
                        String::from_utf8_lossy(&seen.body)
                    }
                ),
            ),
        };
        vec![Step::Send(bytes)]
    })
    .await
}

const ROUTES: [&str; 6] = ["GET /say/*", "POST /b", "PUT /b", "PATCH /b", "DELETE /b", "GET /b"];

#[tokio::test]
async fn in_node_every_member_sends_what_it_says_and_settles_as_it_says() {
    let upstream = echo().await;
    let broker = Run::new(&upstream.origin(), &ROUTES);
    let container = Container::lent(&broker.0).await;
    let program = TELL.to_owned()
        + r#"
console.log(inside);
await tell(() => host.get("/b"));
await tell(() => host.del("/b"));
await tell(() => host.put("/b", { a: "é—😀\u2028" }));
await tell(() => host.post("/b", null));
await tell(() => host.post("/b", "text"));
await tell(() => host.post("/b"));
await tell(() => host.patch("/b", [1, undefined]));
await tell(() => host.call("dElEtE", "/b", 7));
await tell(() => host.call("get", "/b", [0]));
for (const what of ["empty", "text", "bom", "bytes", "nan", "none", "missing", "moved"]) await tell(() => host.get("/say/" + what));
await tell(async () => (await host.get("/say/deep")).length);
await tell(() => host.get("/say/a:b"));
await tell(() => host.call("ſay", "/b"));
await tell(() => host.post("/b", () => 1));
await tell(() => host.post("/b", 1n));
const loop = {}; loop.loop = loop;
await tell(async () => { try { return await host.post("/b", loop); } catch (error) { return error instanceof TypeError; } });
"#;
    let out = run(Programs::new().snippet(&node_client(broker.0.grant()), &program, &container.path())).await;
    let expected = r#"/run/host-api.sock
"[\"GET /b HTTP/1.1\",-]"
"[\"DELETE /b HTTP/1.1\",-]"
["PUT /b HTTP/1.1",{"a":"é—😀U2028"}]
["POST /b HTTP/1.1",null]
["POST /b HTTP/1.1","text"]
"[\"POST /b HTTP/1.1\",-]"
["PATCH /b HTTP/1.1",[1,null]]
["DELETE /b HTTP/1.1",7]
["GET /b HTTP/1.1",[0]]
""
"plain {text"
"BOM1"
"�a"
"NaN"
""
Error host api 404: {"no":"such — berth"} | 404 | {"no":"such — berth"}
Error host api 302: elsewhere | 302 | elsewhere
100000
Error host api call not permitted: GET /say/a:b | undefined | undefined
Error host api call not permitted: ſay /b | undefined | undefined
TypeError host api: the body cannot be written as JSON | undefined | undefined
TypeError Do not know how to serialize a BigInt | undefined | undefined
true
"#;
    assert_eq!(out, expected.replace("U2028", "\u{2028}").replace("BOM", "\u{feff}"));
    assert_eq!(broker.counts(), (18, 0, 0), "what the client refuses is not sent");
    for seen in upstream.seen() {
        assert_eq!(seen.header("content-type").is_some(), !seen.body.is_empty());
    }
}

#[tokio::test]
async fn in_python_every_member_sends_what_it_says_and_settles_as_it_says() {
    let upstream = echo().await;
    let mut grant = spec(&upstream.origin(), &ROUTES);
    grant.global = "port".to_owned();
    let broker = Run::with(&grant, BrokerOptions::default());
    let container = Container::lent(&broker.0).await;
    let program = r#"
from plimsoll_host import port
assert port is host
tell(lambda: host.get("/b"))
tell(lambda: host.delete("/b"))
tell(lambda: host.put("/b", {"a": "é—😀\u2028"}))
tell(lambda: host.post("/b", None))
tell(lambda: host.post("/b", "text"))
tell(lambda: host.post("/b"))
tell(lambda: host.patch("/b", (1, None)))
tell(lambda: host.call("dElEtE", "/b", 7))
tell(lambda: host.call("get", "/b", [0]))
for what in ["empty", "text", "bom", "bytes", "nan", "none", "missing", "moved"]: tell(lambda: host.get("/say/" + what))
tell(lambda: len(host.get("/say/deep")))
tell(lambda: host.get("/say/a:b"))
tell(lambda: host.get("/b\n"))
tell(lambda: host.call("ſay", "/b"))
tell(lambda: host.post("/b", object()))
tell(lambda: host.post("/b", float("nan")))
import os
del os.environ["HOST_API_SOCKET"]
tell(lambda: host.get("/b"))
os.environ["HOST_API_SOCKET"] = "/nowhere.sock"
tell(lambda: host.get("/b"))
"#;
    let programs = Programs::new();
    let mut python = programs.python(broker.0.grant(), program);
    python.env("HOST_API_SOCKET", container.path()).env("PYTHONUTF8", "1");
    let out = run(python).await;
    let expected = r#""[\"GET /b HTTP/1.1\",-]"
"[\"DELETE /b HTTP/1.1\",-]"
["PUT /b HTTP/1.1", {"a": "\u00e9\u2014\ud83d\ude00\u2028"}]
["POST /b HTTP/1.1", null]
["POST /b HTTP/1.1", "text"]
"[\"POST /b HTTP/1.1\",-]"
["PATCH /b HTTP/1.1", [1, null]]
["DELETE /b HTTP/1.1", 7]
["GET /b HTTP/1.1", [0]]
""
"plain {text"
"\ufeff1"
"\ufffda"
"NaN"
""
HostError host api 404: {"no":"such — berth"} | 404 | {"no":"such — berth"}
HostError host api 302: elsewhere | 302 | elsewhere
100000
HostError host api call not permitted: GET /say/a:b | None | None
HostError host api call not permitted: GET /b
 | None | None
HostError host api call not permitted: ſay /b | None | None
TypeError Object of type object is not JSON serializable | - | -
ValueError Out of range float values are not JSON compliant | - | -
HostError host api: HOST_API_SOCKET is not set: there is no grant, or it was removed | None | None
FileNotFoundError [Errno 2] No such file or directory | - | -
"#;
    assert_eq!(out, expected);
    assert_eq!(broker.counts(), (18, 0, 0));
}

#[tokio::test]
async fn without_a_socket_or_a_server_calls_reject_and_say_why() {
    let grant = spec("https://api.example", &["GET /a"]).validate().unwrap();
    let programs = Programs::new();
    let program = TELL.to_owned() + "await tell(() => host.get(\"/a\"));";
    let out = run(programs.snippet(&node_client(&grant), &program, Path::new(""))).await;
    assert_eq!(
        out,
        "Error host api: HOST_API_SOCKET is not set: there is no grant, or it was removed | undefined | undefined\n"
    );
    let out = run(programs.snippet(&node_client(&grant), &program, Path::new("/nowhere.sock"))).await;
    assert_eq!(out, "Error connect ENOENT /nowhere.sock | undefined | undefined\n");
    // No grant at all: the raw socket answers, the client tells it like any refusal.
    let container = Container::open().await;
    let out = run(programs.snippet(&node_client(&grant), &program, &container.path())).await;
    assert!(out.starts_with("Error host api 503: no grant: "), "{out}");
}

#[tokio::test]
async fn the_client_does_nothing_when_it_loads_and_cannot_throw() {
    let programs = Programs::new();
    let watch = r#"
const before = new Set([...Object.getOwnPropertyNames(globalThis), ...process.moduleLoadList]);
const { runInThisContext } = require("node:vm");
globalThis.process = process;
const text = require("node:fs").readFileSync(process.argv[1], "utf8");
for (const name of process.moduleLoadList) before.add(name);
const environment = JSON.stringify(process.env);
const value = runInThisContext(text);
const after = [...Object.getOwnPropertyNames(globalThis), ...process.moduleLoadList].filter((name) => !before.has(name));
process.env.HOST_API_SOCKET = undefined; delete process.env.HOST_API_SOCKET;
console.log(JSON.stringify([value === undefined, after, environment === JSON.stringify(process.env), process.getActiveResourcesInfo()]));
"#;
    for (global, defined) in [
        ("host", r#""host""#),
        ("a b", r#""a b""#),
        ("undefined", ""),
        ("NaN", ""),
        ("__proto__x", r#""__proto__x""#),
    ] {
        let mut grant = spec("https://api.example", &["GET /a"]);
        grant.global = global.to_owned();
        let client = programs.write("client.js", &node_client(&grant.validate().unwrap()));
        let mut node = node();
        node.args(["-e", watch]).arg(client);
        assert_eq!(run(node).await, format!("[true,[{defined}],true,[]]\n"), "{global}");
    }
    // Neither does a context in which everything is missing or refuses.
    let grant = spec("https://api.example", &["GET /a"]).validate().unwrap();
    let client = programs.write("client.js", &node_client(&grant));
    let poor = r#"
const vm = require("node:vm");
const text = require("node:fs").readFileSync(process.argv[1], "utf8");
vm.runInNewContext(text);
vm.runInNewContext("Object.defineProperty(globalThis, 'host', { value: 1 });" + text);
console.log("quiet");
"#;
    let mut node = node();
    node.args(["-e", poor]).arg(client);
    assert_eq!(run(node).await, "quiet\n");
}

#[tokio::test]
async fn a_preamble_may_follow_the_client_in_the_same_script() {
    let upstream = echo().await;
    let broker = Run::new(&upstream.origin(), &ROUTES);
    let container = Container::lent(&broker.0).await;
    let prelude =
        node_client(broker.0.grant()) + "const sdk = { b: () => host.get('/b') };\nvar shared = 'from preamble'";
    let program = "console.log(shared, globalThis.shared, await sdk.b());";
    let out = run(Programs::new().snippet(&prelude, program, &container.path())).await;
    assert_eq!(out, "from preamble from preamble [\"GET /b HTTP/1.1\",-]\n");
}

#[tokio::test]
async fn a_program_that_is_done_ends_at_once() {
    let upstream = echo().await;
    let broker = Run::new(&upstream.origin(), &ROUTES);
    let container = Container::lent(&broker.0).await;
    let program = r#"
await Promise.all(Array.from({ length: 8 }, (_, nth) => host.get("/say/" + nth)));
try { await host.get("/say/missing"); } catch {}
const done = performance.now();
process.on("exit", () => console.log(Math.round(performance.now() - done)));
"#;
    let programs = Programs::new();
    let took: u64 = run(programs.snippet(&node_client(broker.0.grant()), program, &container.path()))
        .await
        .trim()
        .parse()
        .unwrap();
    assert!(took < 1_000, "the program stayed for {took} ms");
}

#[tokio::test]
async fn a_refusal_reaches_a_program_that_is_still_sending() {
    let upstream = echo().await;
    let broker = Run::new(&upstream.origin(), &["POST /b"]);
    let container = Container::lent(&broker.0).await;
    let programs = Programs::new();
    let program = TELL.to_owned()
        + "for (const size of [(1 << 20) - 1, 3 << 20, 30 << 20]) await tell(() => host.post('/b', 'x'.repeat(size)));";
    let out = run(programs.snippet(&node_client(broker.0.grant()), &program, &container.path())).await;
    assert_eq!(
        out.matches("Error host api 413: request body refused").count(),
        3,
        "{out}"
    );
    let mut python = programs.python(
        broker.0.grant(),
        "for size in [(1 << 20) - 1, 3 << 20, 30 << 20]: tell(lambda: host.post('/b', 'x' * size))",
    );
    python.env("HOST_API_SOCKET", container.path());
    let out = run(python).await;
    assert_eq!(
        out.matches("HostError host api 413: request body refused").count(),
        3,
        "{out}"
    );
    assert_eq!(broker.counts(), (0, 6, 0));
}

#[tokio::test]
async fn forty_calls_at_once_are_each_answered_or_refused_as_too_many() {
    let upstream =
        Script::start(|_| vec![Step::Sleep(Duration::from_millis(20)), Step::Send(answer(200, "", "1"))]).await;
    let broker = Run::new(&upstream.origin(), &["GET /a"]);
    let container = Container::lent(&broker.0).await;
    let program = r#"
const calls = Array.from({ length: 40 }, () => host.get("/a").then(() => 200, (error) => error.status));
const answers = await Promise.all(calls);
console.log(answers.every((status) => status === 200 || status === 429), answers.filter((status) => status === 200).length >= 16);
"#;
    let out = run(Programs::new().snippet(&node_client(broker.0.grant()), program, &container.path())).await;
    assert_eq!(out, "true true\n");
}

#[tokio::test]
async fn a_step_has_client_and_preamble_before_its_program_whatever_kind_it_is() {
    let upstream = echo().await;
    let mut grant = spec(&upstream.origin(), &ROUTES);
    grant.preamble = "var shared = `from ${'preamble'}`;\nconst sdk = { b: () => host.get('/b') };\nhost.sdk = sdk;\
                      host.where = () => new Error('x').stack"
        .to_owned();
    let broker = Run::with(&grant, BrokerOptions::default());
    let container = Container::lent(&broker.0).await;
    let programs = Programs::new();
    let module = programs.write("plimsoll-host.mjs", &node_module(broker.0.grant()));
    let import = format!(" --import=file://{}", module.to_str().unwrap());
    let program =
        "(async () => console.log(shared, await sdk.b(), host.sdk === sdk, host.where().includes('preamble.js:3')))();";
    for name in ["step.cjs", "step.mjs"] {
        let mut node = node();
        node.arg(programs.write(name, program));
        node.env("NODE_OPTIONS", &import)
            .env("HOST_API_SOCKET", container.path());
        assert_eq!(
            run(node).await,
            "from preamble [\"GET /b HTTP/1.1\",-] true true\n",
            "{name}"
        );
    }
    // A step that calls nothing has a client and nothing else; without the variable a call rejects.
    let mut bare = spec(&upstream.origin(), &ROUTES);
    bare.global = "port".to_owned();
    let module = programs.write("plimsoll-host.mjs", &node_module(&bare.validate().unwrap()));
    let import = format!("--import=file://{}", module.to_str().unwrap());
    let mut node = node();
    node.env("NODE_OPTIONS", &import);
    node.args([
        "-e",
        "console.log(process.env.HOST_API_SOCKET, process.moduleLoadList.includes('NativeModule http'));\
                      port.get('/b').catch((error) => console.log(error.message))",
    ]);
    let out = run(node).await;
    assert_eq!(
        out,
        "undefined false\nhost api: HOST_API_SOCKET is not set: there is no grant, or it was removed\n"
    );
}

/// Methods and paths, most of them nearly right.
fn calls() -> impl Strategy<Value = (String, String)> {
    let method = prop_oneof![
        12 => Just("GET"), 6 => Just("PUT"), 3 => Just("post"), 3 => Just("PaTcH"), 3 => Just("delete"),
        1 => prop::sample::select(vec!["", " GET", "GET ", "GET\n", "HEAD", "CONNECT", "ſet", "GEΤ", "pu\u{0}t", "get,put"]),
    ];
    let segment = prop_oneof![
        20 => prop::sample::select(vec!["v1", "items", "a", "items:batch", "on", "x"]).prop_map(str::to_owned),
        3 => "[A-Za-z0-9_.~$&+,=@-]{1,8}",
        1 => "[a.:;%?#\\\\!'()*\\[\\] é\t\n\r\0]{0,3}",
        1 => prop::sample::select(vec!["", ".", "..", "...", "*", "%2e", "a:b", ":", "..;", "-", "\u{2028}", "ﬀ"]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => (8_150_usize..8_200).prop_map(|size| "x".repeat(size)),
    ];
    let ends = prop::sample::select(vec![
        ("/", ""),
        ("/", ""),
        ("/", ""),
        ("/", ""),
        ("/", ""),
        ("", ""),
        ("/", "/"),
        ("//", ""),
        ("/", "\n"),
        ("http://h/", ""),
    ]);
    (method, prop::collection::vec(segment, 0..4), ends)
        .prop_map(|(method, segments, (start, end))| (method.to_owned(), format!("{start}{}{end}", segments.join("/"))))
}

fn paths_grant() -> Grant {
    let mut spec = GrantSpec::new("https://api.example");
    spec.allow = [
        ("GET", "/"),
        ("GET", "/*"),
        ("GET", "/v1/items/*"),
        ("GET", "/*/*"),
        ("PUT", "/*/*/on"),
        ("PUT", "/v1/items:batch"),
        ("POST", "/*/a/*"),
        ("PATCH", "/$x&y=1,2@z+w~"),
        ("PATCH", "/*/items"),
        ("DELETE", "/v1/*"),
    ]
    .map(|(method, path)| (method.to_owned(), path.to_owned()))
    .to_vec();
    spec.validate().unwrap()
}

#[tokio::test]
async fn the_clients_permit_exactly_what_the_broker_permits() {
    let grant = paths_grant();
    let mut runner = TestRunner::deterministic();
    let strategy = calls();
    let calls: Vec<(String, String)> = (0..20_000)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    let permitted: String = calls
        .iter()
        .map(|(method, path)| {
            let (method, target) = (Method::from_bytes(method.as_bytes()), Target::parse(path.as_bytes()));
            let found = matches!((method, target), (Some(method), Ok(target)) if grant.find(method, target).is_some());
            if found { '1' } else { '0' }
        })
        .collect();
    let ones = permitted.matches('1').count();
    assert!((2_000..18_000).contains(&ones), "{ones} of 20,000 are permitted");

    let programs = Programs::new();
    let list = programs.write("calls.json", &serde_json::to_string(&calls).unwrap());
    // A permitted call gets as far as the channel: a socket that is not named, a function that answers nothing.
    let program = format!(
        r#"
const calls = JSON.parse(process.getBuiltinModule("node:fs").readFileSync({list:?}, "utf8"));
let out = "";
for (const [method, path] of calls) {{
  const refused = await host.call(method, path).then(() => false, (error) => error.message.startsWith("host api call not permitted: "));
  out += refused ? "0" : "1";
}}
console.log(out);
"#
    );
    let engine =
        "globalThis.__plimsoll_host_call = () => ({ status: 200, body: '' });\n".to_owned() + &snippet_client(&grant);
    for client in [node_client(&grant), engine] {
        let out = run(programs.snippet(&client, &program, Path::new(""))).await;
        same(&calls, &permitted, out.trim());
    }
    let program = format!(
        r#"
def told(method, path):
    try: host.call(method, path)
    except HostError as error: return "0" if str(error).startswith("host api call not permitted: ") else "1"
print("".join(told(method, path) for method, path in json.load(open({list:?}, encoding="utf-8"))))
"#
    );
    let out = run(programs.python(&grant, &program)).await;
    same(&calls, &permitted, out.trim());
}

fn same(calls: &[(String, String)], broker: &str, client: &str) {
    assert_eq!(broker.len(), client.len());
    for ((call, broker), client) in calls.iter().zip(broker.chars()).zip(client.chars()) {
        assert_eq!(broker, client, "{call:?}");
    }
}

#[tokio::test]
async fn a_client_that_was_tampered_with_permits_no_more_than_the_broker() {
    let upstream = echo().await;
    let broker = Run::new(&upstream.origin(), &["GET /say/*"]);
    let container = Container::lent(&broker.0).await;
    let program = TELL.to_owned()
        + r#"
Array.prototype.some = () => true;
Array.prototype.every = () => true;
await tell(() => host.get("/admin"));
await tell(() => host.get("/say/../admin"));
"#;
    let out = run(Programs::new().snippet(&node_client(broker.0.grant()), &program, &container.path())).await;
    assert_eq!(
        out.matches("Error host api 403: route not permitted").count(),
        2,
        "{out}"
    );
    assert!(upstream.seen().is_empty());
}
