//! Printing, errors and the event loop work whatever a program does to the language's own objects, as they do in node.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunReport, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(60);

async fn run(code: &str) -> RunReport {
    let engine = Engine::new(EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    engine.run(RunSpec::new(code, TIMEOUT)).await.unwrap()
}

/// `members`: every property of every intrinsic, as `[name, object, key]`, and what a spoiler itself needs.
const MEMBERS: &str = r"
const { ownKeys } = Reflect, { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object, { log, error: warn } = console;
const own = new Set(['globalThis', 'global', 'console', 'process', 'require', 'module', 'exports']);
const roots = new Map();
const add = (name, value) => {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
  roots.set(value, name);
  if (typeof value === 'function' && value.prototype) roots.set(value.prototype, name + '.prototype');
};
for (const name of Object.getOwnPropertyNames(globalThis)) if (!own.has(name)) add(name, globalThis[name]);
add('%TypedArray%', getPrototypeOf(Uint8Array));
add('%AsyncFunction%', getPrototypeOf(async () => {}));
add('%Generator%', getPrototypeOf(getPrototypeOf((function* () {})())));
for (const it of [[].values(), new Map().keys(), new Set().keys(), ''[Symbol.iterator](), 'a'.matchAll(/a/g)]) {
  add('%' + it[Symbol.toStringTag] + '%', getPrototypeOf(it));
}
const members = [];
for (const [object, name] of roots) {
  for (const key of ownKeys(object)) members.push([name + '.' + String(key), object, key]);
}
";

/// Names of the members whose loss changes what the console prints. Each is set to `null` and to a function that throws, and
/// put back, one after the other.
const SPOIL_EACH: &str = r"
const value = {
  a: [1, 2, 'x'], m: new Map([[1, { b: 2 }]]), s: new Set(['q']), d: new Date(0), r: /a'/g, f() {}, c: class A {}, u: new Uint8Array(3),
  e: [1.5, -0, 10n, null, undefined, Symbol('t')], long: 'it\'s\n' + 'y'.repeat(90), n: { n: { n: { n: 1 } } }, o: Object(1),
  many: [100, 200, 300, 400, 500, 600, 700, 800, 900], p: Promise.resolve(4), b: new ArrayBuffer(2), error: new RangeError('no'),
};
value.self = value;
const { stdout } = process, { write } = stdout;
let printed = '';
const keep = (text) => ((printed = printed + text), true);
const show = () => {
  printed = '';
  stdout.write = keep;
  try {
    log(value);
    log('%s %d %j %o', 1, '2', { a: 1 }, [3]);
    console.table([{ a: 1, b: 'x' }, { a: 2 }]);
  } catch (error) {
    printed = 'throws ' + error.message;
  }
  stdout.write = write;
  return printed;
};
const spoilt = () => { throw new Error('spoilt') };
const expected = show();
const changed = [];
let tries = 0;
for (let i = 0; i < members.length; i++) {
  const name = members[i][0], object = members[i][1], key = members[i][2];
  const before = getOwnPropertyDescriptor(object, key);
  if (name === 'Error.stackTraceLimit' || name === 'Array.prototype.length' || !(before.configurable || before.writable)) continue;
  const given = before.get ? [{ __proto__: null, get: spoilt }] : [{ __proto__: null, value: null }, { __proto__: null, value: spoilt }];
  let same = true;
  for (let j = 0; j < given.length; j++) {
    defineProperty(object, key, given[j]);
    same = show() === expected && same;
    defineProperty(object, key, before);
    tries++;
  }
  if (!same) changed[changed.length] = name;
}
log(tries > 1500, changed.join(' '));
";

/// Where node 22 prints something else, or throws, too: it asks regular expressions for their source and flags, buffers for
/// their size, and objects for their tag and for the name of a function or class that it does not know by its prototype.
const AS_IN_NODE: [&str; 15] = [
    "Function.prototype.name",
    "RegExp.prototype.flags",
    "RegExp.prototype.source",
    "RegExp.prototype.global",
    "RegExp.prototype.ignoreCase",
    "RegExp.prototype.multiline",
    "RegExp.prototype.dotAll",
    "RegExp.prototype.unicode",
    "RegExp.prototype.unicodeSets",
    "RegExp.prototype.sticky",
    "RegExp.prototype.hasIndices",
    "ArrayBuffer.prototype.byteLength",
    "Uint8Array.name",
    "Uint8Array.prototype.constructor",
    "%TypedArray%.prototype.Symbol(Symbol.toStringTag)",
];

#[tokio::test]
async fn the_console_prints_the_same_whichever_intrinsic_is_spoilt() {
    let report = run(&format!("{MEMBERS}{SPOIL_EACH}")).await;
    assert_eq!(String::from_utf8(report.stderr.bytes).unwrap(), "");
    let stdout = String::from_utf8(report.stdout.bytes).unwrap();
    assert_eq!(stdout, format!("true {}\n", AS_IN_NODE.join(" ")));
}

#[tokio::test]
async fn printing_errors_and_the_event_loop_outlive_every_method_at_once() {
    let code = format!(
        "{MEMBERS}
        const {{ nextTick }} = process, later = setTimeout, soon = setImmediate, micro = queueMicrotask, Mistake = Error;
        const value = {{ a: [1, 2, 'x'], m: new Map([[1, {{ b: 2 }}]]) }};
        for (let i = 0; i < members.length; i++) {{
          const object = members[i][1], key = members[i][2], before = getOwnPropertyDescriptor(object, key);
          if (typeof before.value !== 'function' || key === 'constructor' || !(before.configurable || before.writable)) continue;
          defineProperty(object, key, {{ __proto__: null, value: null }});
        }}
        log(value, [].map, ''.concat);
        log(`%s and ${{2}}`, 1);
        warn('warned');
        nextTick((x) => log('tick', x), 1);
        micro(() => log('micro'));
        soon(() => log('immediate'));
        later((x) => {{ log('timer', x); throw new Mistake('boom') }}, 1, 2);"
    );
    let report = run(&code).await;
    assert_eq!(report.exit_code, 1);
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "{ a: [ 1, 2, 'x' ], m: Map(1) { 1 => { b: 2 } } } null null\n1 and 2\ntick 1\nmicro\ntimer 2\n"
    );
    let stderr = String::from_utf8(report.stderr.bytes).unwrap();
    let frames = stderr.replace(char::is_numeric, "");
    assert!(
        frames.starts_with("warned\nmain.js:\n")
            && frames.ends_with("\n\nError: boom\n    at Timeout.<anonymous> (main.js::)\n"),
        "{stderr}"
    );
}

#[tokio::test]
async fn what_the_console_hands_out_is_of_the_programs_realm() {
    let code = "
        const { inspect } = require('util'), found = [];
        const seen = [console, console.log, console.Console, inspect, inspect.colors.red, inspect.defaultOptions, setTimeout,
          setTimeout(() => {}, 1), Object.getPrototypeOf(setImmediate(() => {})), process.nextTick, require('util').types.isMap];
        for (const one of seen) found.push(one instanceof Object, typeof one !== 'function' || one instanceof Function);
        inspect({ [inspect.custom](depth, options, again) {
          found.push(options instanceof Object, options.stylize instanceof Function, again === inspect);
        } });
        for (const [Class, make] of [
          [RangeError, () => (function f() { console.log(''); f() })()],
          [TypeError, () => setTimeout(1)],
          [TypeError, () => console.table(1, 2)],
          [TypeError, () => inspect({}, { get depth() { return null.x } })],
        ]) {
          process.stdout.write = () => true;
          try { make() } catch (error) { found.push(error instanceof Class, Object.getPrototypeOf(error) === Class.prototype) }
        }
        delete process.stdout.write;
        console.log(found.length, found.every(Boolean), inspect.colors.red instanceof Array);";
    let report = run(code).await;
    assert_eq!(String::from_utf8(report.stderr.bytes).unwrap(), "");
    assert_eq!(String::from_utf8(report.stdout.bytes).unwrap(), "33 true true\n");
}

/// Gets hold of whatever objects of the other realm it can, as `[where from, object]` in `doors`: what the console and the
/// event loop hand to functions of the program, proxies among them, and what they throw and return.
const DOORS: &str = r"
const util = require('util'), { write } = process.stdout, doors = [];
const door = (name, value) => { if (Object(value) === value) doors.push([name, value]) };
const spy = (name, answer) => new Proxy(function () {}, { apply(target, self, args) {
  door(name + ' this', self); door(name + ' arguments', args);
  for (let i = 0; i < args.length; i++) door(name + ' argument', args[i]);
  return answer;
} });
const failing = [() => setTimeout(5), () => queueMicrotask(1), () => process.nextTick(3), () => console.table(1, 2),
  () => util.inspect({}, { get depth() { return null.x } })];
for (const fail of failing) try { fail() } catch (error) {
  door('error', error); door('error.toString', error.toString);
  door('error.stack', Object.getOwnPropertyDescriptor(error, 'stack'));
}
const timer = setTimeout(spy('timer'), 0, 1, {}), interval = setInterval(spy('interval'), 1, 2), immediate = setImmediate(spy('immediate'), 1);
for (const one of [timer, interval, immediate]) {
  door('timer', one);
  for (const key of Reflect.ownKeys(one)) door('timer.' + String(key), one[key]);
}
setTimeout(clearInterval, 3, interval);
process.nextTick(spy('tick'), 1, {});
queueMicrotask(spy('microtask'));
process.stdout.write = spy('write', true);
console.log({ [util.inspect.custom]: spy('custom', { a: 1 }) });
console.log('%s %d', { [Symbol.toPrimitive]: spy('toPrimitive', 'x') }, { [Symbol.toPrimitive]: spy('toPrimitive', 1) });
console.log(Object.defineProperty(new Error('x'), 'stack', { get: spy('stack', 'S') }));
console.log(Object.defineProperty({}, 'constructor', { get: spy('constructor', Object) }));
console.log(Object.create({ constructor: Object.defineProperty(function A() {}, Symbol.hasInstance, { value: spy('hasInstance', true) }) }));
console.log(Object.defineProperty({}, Symbol.toStringTag, { get: spy('tag', 'T') }));
util.inspect({ a: 1 }, { stylize: spy('stylize', 'z') });
util.inspect({ a: 1, b: 2 }, { sorted: spy('sorted', 0) });
Error.prepareStackTrace = spy('prepare', 'P');
try { setTimeout(7) } catch (error) { error.stack }
Error.prepareStackTrace = undefined;
process.stdout.write = write;
door('timers', Object.getPrototypeOf(timer).constructor);
for (const key of Reflect.ownKeys(console)) door('console', console[key]);
for (const key of Reflect.ownKeys(util.inspect)) door('inspect', util.inspect[key]);
";

/// Finds the intrinsics of the other realm among what the doors lead to, and tries to change every property of each.
const CRAWL: &str = r"
function reach(starts, without) {
  const found = new Set(), queue = [...starts];
  for (const value of queue) {
    if (Object(value) !== value || found.has(value) || without.has(value)) continue;
    found.add(value);
    queue.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const { value: held, get, set } = Object.getOwnPropertyDescriptor(value, key);
      queue.push(held, get, set);
    }
  }
  return found;
}
setTimeout(() => {
  const own = reach([globalThis, util, [].values(), new Map().keys(), new Set().keys(), ''[Symbol.iterator](), 'a'.matchAll(/a/g),
    (function* () {})(), async () => {}, (async function* () {})(), [].values().map(String)], new Set([timer, immediate]));
  const found = reach(doors.map(([, value]) => value), own);
  // What has the methods of an intrinsic and is not the program's; the others are reached from there.
  const marks = ['hasOwnProperty', 'copyWithin', 'bind', 'next', 'exec', 'padEnd'];
  const roots = [...found].filter((one) => typeof one === 'function'
    ? Object.hasOwn(one, 'bind') : marks.some((mark) => Object.hasOwn(one, mark)));
  const intrinsics = reach(roots, own), spoilt = () => { throw new Error('spoilt') };
  let tries = 0, changes = 0, scripts = 0;
  for (const one of intrinsics) {
    tries++;
    if (Reflect.setPrototypeOf(one, { __proto__: null })) changes++;
    if (Reflect.defineProperty(one, 'added', { value: 1 })) changes++;
    for (const key of Reflect.ownKeys(one)) {
      tries++;
      const before = Object.getOwnPropertyDescriptor(one, key);
      for (const value of [null, spoilt]) try { Reflect.set(one, key, value); Reflect.defineProperty(one, key, { value }) } catch {}
      Reflect.deleteProperty(one, key);
      const after = Object.getOwnPropertyDescriptor(one, key);
      if (!after || !['value', 'get', 'set', 'writable'].every((part) => Object.is(before[part], after[part]))) changes++;
    }
    if (one.name === 'Function') try { one('return this')(); scripts++ } catch { scripts += 100 }
  }
  console.log(tries > 300, changes, scripts, Object.getOwnPropertySymbols(timer).length);
  console.log({ a: 1, b: [1, 2, 3] }, new Map([[1, /x/g]]), '%s', 5);
  console.log('%s|%d', 'x', 5);
}, 5);
";

#[tokio::test]
async fn whatever_a_program_gets_hold_of_it_cannot_change_what_the_console_works_with() {
    let report = run(&format!("{DOORS}{CRAWL}")).await;
    assert_eq!(String::from_utf8(report.stderr.bytes).unwrap(), "");
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "true 0 100 0\n{ a: 1, b: [ 1, 2, 3 ] } Map(1) { 1 => /x/g } %s 5\nx|5\n"
    );
}

#[tokio::test]
async fn what_timers_and_coded_errors_show_is_of_the_programs_realm() {
    let code = "
        const timer = setTimeout(() => {}, 0, 1), immediate = setImmediate(() => {}, 1), found = [];
        for (const one of [timer, immediate]) {
          for (const key of Reflect.ownKeys(one)) if (Object(one[key]) === one[key]) found.push(one[key]);
        }
        for (const fail of [() => setTimeout(5), () => console.table(1, 2)]) {
          try { fail() } catch (error) { found.push(error, error.toString) }
        }
        console.log(found.length, found.every((one) => one instanceof Object), String(found.at(-2)).slice(0, 33));
        clearTimeout(Object.create(timer));
        clearImmediate(immediate);";
    let report = run(code).await;
    assert_eq!(String::from_utf8(report.stderr.bytes).unwrap(), "");
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "8 true TypeError [ERR_INVALID_ARG_TYPE]:\n"
    );
}
