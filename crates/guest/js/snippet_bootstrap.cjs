'use strict';
// Preloaded by the node process of a snippet, pooled and cold alike. It loads what nearly every program needs, tells PID 1
// on descriptor 3 that node waits, and at the end of standard input, just before node evaluates it, runs the prelude that
// PID 1 has written to descriptor 3. What the program can see of it: process.emit is an accessor, and while 'exit' is emitted
// it has one listener more, which stack traces of that moment show.
{
  const fs = require('node:fs');
  const vm = require('node:vm');
  const { _pathCache: paths } = require('node:module');
  const { isMainThread } = require('node:worker_threads');

  // A Worker and a fork of this process start without it.
  process.execArgv.length = 0;
  delete require.cache[__filename];
  for (const key of Object.keys(paths)) if (key.startsWith(__filename)) delete paths[key];

  if (isMainThread) {
    // The first line printed and the first script evaluated cost 2 ms of compiling; pay for them while waiting.
    const { Console } = require('node:console');
    const { Writable } = require('node:stream');
    const sink = () => new Writable({ write: (_chunk, _encoding, done) => done() });
    const console = new Console({ stdout: sink(), stderr: sink() });
    console.log('%s', 1, 'text', { list: [1, 'two', new Map()] });
    console.error(new Error('warm'));
    vm.runInThisContext('0');
    // Not so for the two streams themselves: node makes what they write to non-blocking, and fs.writeSync would fail.

    leaveWhenDone();

    process.stdin.once('end', () => {
      const prelude = fs.readFileSync(3, 'utf8');
      fs.closeSync(3);
      if (prelude !== '') vm.runInThisContext(prelude, { filename: 'plimsoll:prelude' });
    });
    setImmediate(() => fs.writeSync(3, 'r'));
  }

  // A program that has come to a good end of its own has nothing left to do, yet node takes its heap apart piece by piece:
  // a millisecond, and ten under gVisor. So a listener that comes after all others on 'exit' ends the process as
  // process.exit() would. Every other end stays node's own: process.exit() itself, an error that node has yet to print, an
  // exit code that is not 0.
  function leaveWhenDone() {
    const { emit, reallyExit, _tickCallback: drain } = process;
    const { getCallSites } = require('node:util');
    if (typeof getCallSites !== 'function' || typeof drain !== 'function') return;

    const leave = (code) => {
      // Only node itself emits with nothing but the emission and its listener on the stack.
      if (code !== 0 || getCallSites(3).length !== 2) return;
      // As node does after the last listener: what it left to do at once.
      drain();
      if (!process.exitCode && process.reallyExit === reallyExit) process.reallyExit(0);
    };
    const { apply } = Reflect;
    const { flat } = Array.prototype;
    const comeLast = () => {
      // What node keeps of listeners: none, one function, or a list.
      const { exit: others = [] } = process._events;
      if (others[others.length - 1] !== leave) process._events.exit = apply(flat, [others, leave], []);
    };
    Object.defineProperty(Object.getPrototypeOf(process), 'emit', {
      configurable: true,
      // node looks the emission up just before each: the last moment at which a listener counts.
      get() {
        if (process._exiting) comeLast();
        return emit;
      },
      set(value) {
        Object.defineProperty(this, 'emit', { value, writable: true, enumerable: true, configurable: true });
      },
    });
  }
}
