'use strict';
// Preloaded by the node process of a snippet, pooled and cold alike. It loads what nearly every program needs, tells PID 1
// on descriptor 3 that node waits, and at the end of standard input, just before node evaluates it, runs the prelude that
// PID 1 has written to descriptor 3. Nothing of it is left for the program to see.
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

    let told = false;
    const tell = () => {
      if (told) return;
      told = true;
      fs.writeSync(3, 'r');
    };
    process.stdin.once('end', () => {
      tell();
      const prelude = fs.readFileSync(3, 'utf8');
      fs.closeSync(3);
      if (prelude !== '') vm.runInThisContext(prelude, { filename: 'plimsoll:prelude' });
    });
    setImmediate(tell);
  }
}
