// `require` of the pure modules, and the CommonJS names of a main program.
import { codedError, codes } from 'plimsoll:internal/errors';
import { native } from 'plimsoll:internal/native';
import assert from 'node:assert';
import buffer from 'node:buffer';
import console from 'node:console';
import crypto from 'node:crypto';
import events from 'node:events';
import path from 'node:path';
import perfHooks from 'node:perf_hooks';
import process from 'node:process';
import punycode from 'node:punycode';
import querystring from 'node:querystring';
import { StringDecoder } from 'node:string_decoder';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import url from 'node:url';
import fs, { hasFiles, isFile, promises as fsPromises } from 'plimsoll:fs';
import util from 'node:util';
import utilTypes from 'node:util/types';

const builtins = new Map(
  Object.entries({
    assert,
    'assert/strict': assert.strict,
    buffer,
    console,
    crypto,
    events,
    path,
    'path/posix': path.posix,
    'path/win32': path.win32,
    perf_hooks: perfHooks,
    process,
    punycode,
    querystring,
    string_decoder: { StringDecoder },
    timers,
    'timers/promises': timersPromises,
    url,
    util,
    'util/types': utilTypes,
  }),
);

// What exists only where a run has files.
const withFiles = new Map(Object.entries({ fs, 'fs/promises': fsPromises }));

const network = 'this sandbox has no network; ask for a grant and call the API through its client object';
const files = 'this sandbox has no file system; put the data in the program and print the result';
const processes = 'this sandbox runs one program on one thread; do the work in this program';
// Modules of node that are absent here, and what to do instead.
const remedies = new Map([
  ...['fs', 'fs/promises'].map((name) => [name, files]),
  ...['http', 'https', 'http2', 'net', 'tls', 'dns', 'dns/promises', 'dgram'].map((name) => [name, network]),
  ...['child_process', 'cluster', 'worker_threads'].map((name) => [name, processes]),
  ...['readline', 'readline/promises', 'repl', 'tty'].map((name) => [
    name, 'a program gets no input here; put the data in the program',
  ]),
]);

// The rest of node's own modules: neither packages nor files.
const absent = new Set([
  'async_hooks', 'constants', 'diagnostics_channel', 'domain', 'inspector', 'inspector/promises', 'module', 'os', 'sea', 'sqlite',
  'stream', 'stream/consumers', 'stream/promises', 'stream/web', 'sys', 'test', 'test/reporters', 'trace_events', 'v8', 'vm', 'wasi',
  'zlib',
]);

const packages = 'packages cannot be installed in this sandbox; write the few lines needed into the program';

function missing(name) {
  const bare = name.replace(/^node:/, '');
  const asFile = /^(?:\.{0,2}\/|\.{1,2}$)/.test(name);
  const isNode = absent.has(bare) || name.startsWith('node:');
  const others = isNode ? `it is not part of this sandbox; available are ${[...builtins.keys()].join(', ')}` : packages;
  const remedy = remedies.get(bare) ?? (asFile ? (hasFiles() ? 'there is no such file in this session' : files) : others);
  const error = codedError(Error, 'MODULE_NOT_FOUND', `Cannot find module '${name}': ${remedy}`);
  // Node writes this code into the properties only.
  delete error.toString;
  error.stack = String(error.stack).replace('Error [MODULE_NOT_FOUND]', 'Error');
  Object.defineProperty(error, 'stack', { enumerable: false });
  error.requireStack = ['/main.js'];
  return error;
}

/** A built-in module, or undefined. */
function builtin(name) {
  const bare = name.startsWith('node:') ? name.slice(5) : name;
  return builtins.get(bare) ?? (withFiles.has(bare) && hasFiles() ? withFiles.get(bare) : undefined);
}

const ENDINGS = ['', '.js', '.cjs', '.json', '/index.js', '/index.json'];

/** The file a relative or absolute name means, from a folder. */
function fileOf(name, folder) {
  if (!/^(?:\.{0,2}\/|\.{1,2}$)/.test(name) || !hasFiles()) return undefined;
  const at = path.posix.resolve(folder, name);
  const found = ENDINGS.find((ending) => isFile(at + ending));
  return found === undefined ? undefined : at + found;
}

function resolve(name, folder) {
  if (typeof name !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('id', 'string', name);
  if (name === '') throw new codes.ERR_INVALID_ARG_VALUE('id', name, 'must be a non-empty string');
  if (builtin(name) !== undefined) return name;
  const file = fileOf(name, folder);
  if (file === undefined) throw missing(name);
  return file;
}

const cache = Object.create(null);

/** Evaluates a file of the session as a CommonJS module, once. */
function load(file) {
  if (cache[file] !== undefined) return cache[file].exports;
  const source = fs.readFileSync(file, 'utf8').replace(/^\ufeff/, '');
  const folder = path.posix.dirname(file);
  const loaded = {
    id: file, path: folder, exports: {}, filename: file, loaded: false, children: [], paths: [], require: requireFrom(folder),
  };
  cache[file] = loaded;
  try {
    if (file.endsWith('.json')) {
      loaded.exports = JSON.parse(source);
    } else {
      // On one line, so that the file's first line stays its first.
      const wrapped = `(function (exports, require, module, __filename, __dirname) {${source.replace(/^#!.*/, '')}\n})`;
      const body = native.compile(wrapped, file);
      Reflect.apply(body, loaded.exports, [loaded.exports, loaded.require, loaded, file, folder]);
    }
    loaded.loaded = true;
  } catch (error) {
    delete cache[file];
    throw error;
  }
  return loaded.exports;
}

function requireFrom(folder) {
  function require(name) {
    const resolved = resolve(name, folder);
    return builtin(resolved) ?? load(resolved);
  }
  require.resolve = (name) => resolve(name, folder);
  require.main = module;
  require.cache = cache;
  require.extensions = Object.create(null);
  return require;
}

export const module = {
  id: '.',
  path: '/',
  exports: {},
  filename: '/main.js',
  loaded: false,
  children: [],
  paths: ['/node_modules'],
};
export const require = requireFrom('/');
module.require = require;

native.setImport((specifier) => {
  if (builtin(specifier) !== undefined) {
    throw codedError(
      TypeError, 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING',
      `import('${specifier}') is not available in this sandbox; use require('${specifier}')`,
    );
  }
  throw missing(specifier);
});
