// Looks for the credential of its own run wherever a program can look, and says where it looked. It knows how every token
// of its grant begins, and hides tokens of its own first: a search that does not find those proves nothing.

const HEAD = ["eyJhbGciOiJIUzI1", "NiIs"].join(""); // {"alg":"HS256", in base64; in two parts, so that this text is no find
const SIGNS = [HEAD, ["Bear", "er "].join(""), ["127.0", ".0.1"].join("")];
const DEEPEST = 24;
const MOST = 200_000;

const seen = new Set();
const queue = [];
const decoys = new Set();
const finds = [];
const looked = { strings: 0, functions: 0, getters: 0, buffers: 0, bytes: 0 };
let bounded = false;

function judge(text, where) {
  looked.strings += 1;
  for (const sign of SIGNS) {
    const at = text.indexOf(sign);
    if (at < 0) continue;
    const decoy = /^-decoy-(\w+)/.exec(text.slice(at + sign.length));
    if (sign === HEAD && decoy) decoys.add(decoy[1]);
    else finds.push(`${where}: ${text.slice(at, at + 400)}`);
  }
}

function note(value, where, depth) {
  if (typeof value === "string") return judge(value, where);
  if (typeof value === "symbol") return judge(String(value), where);
  if (value === null || (typeof value !== "object" && typeof value !== "function") || seen.has(value)) return;
  if (depth > DEEPEST || seen.size >= MOST) return void (bounded = true);
  seen.add(value);
  queue.push([value, where, depth]);
}

function scan(bytes, where) {
  looked.buffers += 1;
  looked.bytes += bytes.byteLength;
  for (const sign of SIGNS) {
    const codes = Array.from(sign, (letter) => letter.charCodeAt(0));
    for (let at = bytes.indexOf(codes[0]); at >= 0; at = bytes.indexOf(codes[0], at + 1)) {
      if (codes.every((code, n) => bytes[at + n] === code)) judge(String.fromCharCode(...bytes.subarray(at, at + 400)), where);
    }
  }
}

// A getter that runs is a place too; what it throws is one more.
function read(holder, key, where, depth) {
  looked.getters += 1;
  try {
    note(Reflect.get(holder, key, holder), where, depth);
  } catch (error) {
    note(error, `${where} (thrown)`, depth);
  }
}

function visit(value, where, depth) {
  if (value instanceof Promise) value.catch(() => {});
  if (typeof value === "function") {
    looked.functions += 1;
    judge(Function.prototype.toString.call(value), `${where} (text)`);
  }
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) scan(new Uint8Array(value), where);
  else if (ArrayBuffer.isView(value)) return note(value.buffer, `${where}.buffer`, depth + 1);
  if (value instanceof Map) for (const [key, item] of value) note(key, where, depth + 1), note(item, where, depth + 1);
  if (value instanceof Set) for (const item of value) note(item, where, depth + 1);
  if (value instanceof WeakRef) note(value.deref(), where, depth + 1);
  for (const key of Reflect.ownKeys(value)) {
    note(key, where, depth);
    const place = `${where}.${String(key)}`;
    const property = Reflect.getOwnPropertyDescriptor(value, key);
    if (property === undefined) continue;
    if ("value" in property) note(property.value, place, depth + 1);
    for (const part of [property.get, property.set]) note(part, place, depth + 1);
    if (property.get) read(value, key, place, depth + 1);
  }
  const parent = Reflect.getPrototypeOf(value);
  if (parent === null) return;
  note(parent, `${where}.__proto__`, depth + 1);
  // Getters that live on a prototype answer for the object they are asked about.
  for (const key of Reflect.ownKeys(parent)) {
    if (Reflect.getOwnPropertyDescriptor(parent, key)?.get) read(value, key, `${where}.${String(key)}`, depth + 1);
  }
}

function search() {
  while (queue.length > 0) visit(...queue.pop());
}

// 1. Tokens of its own, in the kinds of places that are searched.
const fake = (name) => `${HEAD}-decoy-${name}`;
class Holder { get inherited() { return fake("getter"); } }
const hidden = Object.assign(new Holder(), {
  nested: [{ deep: { deeper: fake("nested") } }],
  [Symbol(fake("symbol"))]: 1,
  map: new Map([[fake("key"), new Set([fake("set")])]]),
  bytes: Uint8Array.from(Buffer.from(`.....${fake("bytes")}`)),
  text: new Function(`return "${fake("text")}"`),
  failed: Object.assign(new Error("no"), { cause: new TypeError(fake("cause")) }),
});
Object.defineProperty(hidden.text, "quiet", { value: fake("quiet") });
note(hidden, "hidden", 0);
search();
console.log(`control: found ${decoys.size} of 9 tokens it had hidden itself`);

// 2. The answers of the host: good ones, refusals, and what comes of asking wrongly. One route echoes what the API was sent.
const ask = (request) => {
  try {
    return __plimsoll_host_call(request);
  } catch (error) {
    return { status: "error", error };
  }
};
const call = (method, path, more) => JSON.stringify({ method, path, ...more });
const answers = [
  call("GET", "/berths/A1"),
  call("GET", "/headers"),
  call("GET", "/crew"),
  call("GET", "/berths/A1", { headers: { authorization: "show" } }),
  call("GET", "/berths/A1", { token: null }),
  "no JSON",
  "",
  call("PUT", "/berths/A1", { body: "x".repeat(1_200_000) }),
  undefined,
  { toString: () => call("GET", "/berths/A2") },
].map(ask);
console.log(`answers of the host: ${answers.map((answer) => answer.status).join(" ")}`);
console.log(`the echo of its request: ${answers[1].body.trim()}`);
note(answers, "answers", 0);
for (const path of ["/berths/A1", "/headers", "/crew", "/berths/None"]) {
  await host.get(path).then((value) => note([value], path, 0), (error) => note(error, path, 0));
}

// 3. Everything that hangs from the global object, and every module.
note(globalThis, "globalThis", 0);
note(__plimsoll_host_call, "__plimsoll_host_call", 0);
note(host, "host", 0);
note({ process, require, module, exports, __filename, __dirname }, "module scope", 0);
const names = `assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
  dns domain events fs fs/promises http http2 https inspector module net os path path/posix path/win32 perf_hooks process
  punycode querystring readline repl stream string_decoder sys timers timers/promises tls trace_events tty url util
  util/types v8 vm wasi worker_threads zlib qjs:std qjs:os std os internal plimsoll`.split(/\s+/);
let modules = 0;
for (const name of names.flatMap((name) => [name, `node:${name}`])) {
  try {
    note(require(name), `require(${name})`, 0);
    modules += 1;
  } catch (error) {
    note(error, `require(${name})`, 0);
  }
}
for (const source of ["plimsoll", "file:///proc/self/environ", "/proc/self/mem", "http://127.1/", "data:text/javascript,1"]) {
  await import(source).then((space) => note(space, source, 0), (error) => note(error, source, 0));
}

// 4. Stacks: as text, and as frames where the engine hands out frames.
const overflow = () => { try { return (function deeper() { return 1 + deeper(); })(); } catch (error) { return error; } };
note([overflow(), new Error("here"), new AggregateError([new Error("inner")])], "errors", 0);
Error.prepareStackTrace = (error, frames) => {
  note(frames, "frames", 0);
  return String(error);
};
note([new Error("frames").stack, await host.get("/crew").catch((error) => error)], "frames", 0);
delete Error.prepareStackTrace;

// 5. Memory that was somebody else's a moment ago, if the engine hands out any.
const blocks = [];
for (const size of [1, 64, 1_000, 4_096, 65_536, 1 << 20, 4 << 20]) {
  for (let n = 0; n < 4; n += 1) {
    blocks.push(new ArrayBuffer(size), new SharedArrayBuffer(size), Buffer.allocUnsafe(size), Buffer.allocUnsafeSlow(size));
  }
}
note(blocks, "blocks", 0);
note(Buffer.from("pool").buffer, "pool", 0);

search();
console.log(`looked at: ${seen.size} objects, ${looked.functions} function texts, ${looked.getters} getters, ` +
  `${looked.strings} strings, ${modules} modules, ${Object.keys(process.env).length} environment variables, ` +
  `${looked.buffers} buffers of ${Math.round(looked.bytes / (1 << 20))} MiB${bounded ? " (not everything: a bound was reached)" : ""}`);
console.log(finds.length === 0 ? "found: nothing" : `found: ${finds.join("\n")}`);
