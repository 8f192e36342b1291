// The node process that keeps the variables of JavaScript cells. PID 1 starts it as `node -e <text>`, with the files of the
// kernel in one function as the text, and talks to it on descriptors 3 and 4; every frame is a kind, the length of its body
// in four bytes, and the body.
//
//   to PID 1    r  ready for a cell                              from PID 1   !  the bell, one byte: a cell is coming
//               b  the bell was heard; what the streams held                  c  nonce of 32 characters, code
//                  is not the coming cell's
//               d  nonce and one character: 0 ran, 1 raised, 3 nothing is left that could end its `await`; what the cell
//                  wrote is in the streams
//
// From `d` to the next code the event loop stands still, and nothing of the guest's runs in this thread: what came due
// meanwhile runs in the next cell. Workers, and programs that cells have started, go on until PID 1 stops them. The bell
// does not keep the event loop alive while a cell runs, so that node itself notices an `await` that nothing can end.
//
// Cells share one global scope with whatever they overwrite in it. So the kernel lives in a realm of its own, whose
// intrinsics no cell can reach, and takes from the main realm only what is named below, before the first cell. The parser,
// acorn as node carries it, lives there too. What starts a cell is made of built-in functions alone: a stack that a cell
// looks at ends in `Object.assign` and frames of node.
//
// `node -e` defines and wraps more for a text that names node's module of ciphers; this one does not.

const vm = require('node:vm');
const util = require('node:util');
const { EventEmitter } = require('node:events');

furnish();

const realm = vm.createContext(vm.constants.DONT_CONTEXTIFY);
const inRealm = (source, filename) => new vm.Script(source, { filename }).runInContext(realm);
const rewriter = inRealm(`(${cellRewriter})`, 'plimsoll:cells');
inRealm(`(${cellKernel})`, 'plimsoll:cells')({
  global: globalThis,
  process,
  fs: require('node:fs'),
  Socket: require('node:net').Socket,
  stdout: streamControl(process.stdout),
  stderr: streamControl(process.stderr),
  Script: vm.Script,
  defaultLoader: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  inspect: util.inspect,
  isPromise: util.types.isPromise,
  isNativeError: util.types.isNativeError,
  getCallSites: util.getCallSites,
  fileURLToPath: require('node:url').fileURLToPath,
  Error,
  Object,
  assign: Object.assign,
  bind: Function.prototype.bind,
  then: Promise.prototype.then,
  isErrorOf: Function.prototype[Symbol.hasInstance],
  latin1Slice: Buffer.prototype.latin1Slice,
  utf8Slice: Buffer.prototype.utf8Slice,
  allocate: Buffer.allocUnsafeSlow,
  listenerCount: EventEmitter.prototype.listenerCount,
  setImmediate,
  setTimeout,
  rewriter: () => {
    const acorn = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
    const exports = {};
    inRealm(`(function (exports, module) {${acorn}\n})`, 'plimsoll:parser')(exports, { exports });
    return rewriter(exports.parse);
  },
});

/** What a cell finds is what a program of node finds. */
function furnish() {
  const { defineProperty, getOwnPropertyDescriptor } = Reflect;
  const Module = require('node:module');

  // A fork of this process starts without the kernel.
  process.execArgv.length = 0;
  delete process._eval;

  // Not every global variable is looked at: that would load what stands behind it.
  for (const name of [...Module.builtinModules, 'navigator']) {
    const found = getOwnPropertyDescriptor(globalThis, name);
    if (!found?.get || name === 'process') continue;
    // `node -e` has every module as a global variable; a program has none.
    if (!found.enumerable) delete globalThis[name];
    // A declaration at the top level becomes `var`, which an accessor without a setter would swallow.
    else if (!found.set) {
      const set = (value) => {
        defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
      };
      defineProperty(globalThis, name, { ...found, set });
    }
  }

  try {
    // Where a file may be written for the caller without further ado.
    require('node:fs').mkdirSync('artifacts');
  } catch {}

  const directory = process.cwd();
  const filename = `${directory === '/' ? '' : directory}/cell.js`;
  const module = new Module(filename);
  Object.assign(module, { id: '.', filename, paths: Module._nodeModulePaths(directory) });
  process.mainModule = module;
  process.argv[1] = filename;
  const fixtures = {
    require: Module.createRequire(filename),
    module,
    exports: module.exports,
    __filename: filename,
    __dirname: directory,
  };
  // Later: at the end of this text node restores the `module` that there was before.
  process.nextTick(() => {
    for (const [name, value] of Object.entries(fixtures)) {
      defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
    }
  });
}

/** What is needed of a standard stream, taken before a cell can replace it. */
function streamControl({ _handle: handle }) {
  const { setBlocking } = handle ?? {};
  if (typeof setBlocking !== 'function') return undefined;
  let owner = handle;
  while (!Object.hasOwn(owner, 'writeQueueSize')) owner = Object.getPrototypeOf(owner);
  return { handle, setBlocking, queued: Reflect.getOwnPropertyDescriptor(owner, 'writeQueueSize').get };
}
