// The entry: evaluates the whole world once, at build time, and hangs its names on the global object. Nothing here reads the
// clock or draws randomness, for it would be frozen into every run.
import 'plimsoll:internal/math';
import { console } from 'plimsoll:console';
import * as loop from 'plimsoll:internal/loop';
import { Event, CustomEvent, EventTarget, AbortController, AbortSignal, DOMException } from 'plimsoll:internal/event-target';
import { TextEncoder, TextDecoder, atob, btoa } from 'plimsoll:internal/encoding';
import { structuredClone } from 'plimsoll:internal/structured-clone';
import { URL, URLSearchParams } from 'plimsoll:internal/url';
import { require, module } from 'plimsoll:modules';
import 'plimsoll:internal/enter';
import { webcrypto } from 'node:crypto';
import { Buffer, Blob, File } from 'node:buffer';
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import 'intl/index.js';

// What modules of the source leave on the global object.
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (name.startsWith('__wasm_rquickjs')) delete globalThis[name];
}

const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, queueMicrotask } = loop;
class Navigator {
  get hardwareConcurrency() { return 1; }
  get language() { return 'en-US'; }
  get languages() { return ['en-US']; }
  get platform() { return 'linux'; }
  get userAgent() { return 'plimsoll'; }
}
const navigator = new Navigator();

const names = {
  console, process, Buffer, Blob, File, performance, structuredClone, TextEncoder, TextDecoder, atob, btoa, URL, URLSearchParams,
  Event, CustomEvent, EventTarget, AbortController, AbortSignal, DOMException,
  setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate,
  crypto: webcrypto, navigator, queueMicrotask,
  global: globalThis,
  require, module, exports: module.exports,
  __filename: '/main.js', __dirname: '/',
};
// The names that node's global object lists, in its order.
const listed = [
  'global', 'clearImmediate', 'setImmediate', 'clearInterval', 'clearTimeout', 'setInterval', 'setTimeout', 'queueMicrotask',
  'structuredClone', 'atob', 'btoa', 'performance', 'navigator', 'crypto',
];
for (const name of new Set([...listed, ...Object.keys(names)])) {
  delete globalThis[name];
  // Configurable, so that a program may declare `const process = require('process')` and its like.
  Object.defineProperty(globalThis, name, {
    value: names[name], writable: true, enumerable: listed.includes(name), configurable: true,
  });
}
Object.defineProperty(globalThis, Symbol.toStringTag, { value: 'global', configurable: true });
for (const name of ['print', 'gc', 'scriptArgs', 'execArgv', 'argv0']) delete globalThis[name];
