// The kernel realm's entry. What must work whatever a program does to its intrinsics lives in a realm with intrinsics of its
// own: printing, errors and the event loop. The arrays, maps, strings and regular expressions these modules work with are
// theirs, so `Array.prototype.join = null` in a program does not concern them. A program can reach some of these intrinsics
// (the engine itself makes the array of arguments that a Proxy's `apply` trap gets when the console calls it), so all of them
// are frozen below: it can look at them, and change nothing.
//
// Four rules for a module here: call a function of the program by `Reflect.apply`, never by its `call`; take apart a value
// of the program by index or by an intrinsic of this realm, never by a method of the value; let no array or plain object
// made here reach the program without a prototype of its realm; and let no object that holds a module's own state reach it at
// all. Error classes are the program's own (shim.c). Because prototypes are frozen, a property of the same name as one of
// theirs (`toString`) is defined, not assigned.
import { programPrototypes, sharedClasses } from 'plimsoll:kernel/realm';
import * as types from 'plimsoll:internal/types';
import * as text from 'plimsoll:internal/text';
import * as inspect from 'plimsoll:internal/inspect';
import * as inspectError from 'plimsoll:internal/inspect-error';
import * as inspectNames from 'plimsoll:internal/inspect-names';
import * as format from 'plimsoll:internal/format';
import * as errors from 'plimsoll:internal/errors';
import * as report from 'plimsoll:internal/report';
import * as loop from 'plimsoll:internal/loop';
import * as console from 'plimsoll:console';

const seen = new Set();

/** What the program can reach of these modules looks as if it had been made in its realm. */
function adopt(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function') || seen.has(value)) return;
  seen.add(value);
  const above = Object.getPrototypeOf(value);
  if (programPrototypes.has(above)) Object.setPrototypeOf(value, programPrototypes.get(above));
  else adopt(above);
  for (const descriptor of Object.values(Object.getOwnPropertyDescriptors(value))) {
    adopt(descriptor.value);
    adopt(descriptor.get);
    adopt(descriptor.set);
  }
  for (const symbol of Object.getOwnPropertySymbols(value)) adopt(Object.getOwnPropertyDescriptor(value, symbol).value);
}

// Intrinsics of either realm are nobody's to change.
for (const [own, theirs] of programPrototypes) seen.add(own).add(theirs);
for (const module of [types, text, inspect, inspectError, inspectNames, format, errors, report, loop, console]) {
  for (const name of Object.keys(module)) adopt(module[name]);
}

/** Everything reachable from `roots` by properties and prototypes is frozen; `left` and what only it reaches stays as it is. */
function freezeAll(roots, left) {
  const queue = [...roots];
  const met = new Set(left);
  for (const value of queue) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function') || met.has(value)) continue;
    met.add(value);
    queue.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const descriptor = Object.getOwnPropertyDescriptor(value, key);
      queue.push(descriptor.value, descriptor.get, descriptor.set);
    }
    Object.freeze(value);
  }
}

delete globalThis.__native;
delete globalThis.__program;
freezeAll(
  [
    globalThis,
    // What has no name: iterators, generators and functions of each kind.
    [].values(), ''[Symbol.iterator](), ''.matchAll(/a/g), new Map().keys(), new Set().keys(), [].values().map(String),
    Iterator.from({ next() {} }), (function* () {})(), function* () {}, async () => {}, async function* () {}, (async function* () {})(),
    Iterator.concat([]), (function () { return arguments })(),
  ],
  sharedClasses,
);
