// The modules of node that are here, and what is said about all others.
import { codedError } from 'plimsoll:internal/errors';
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
import fs, { hasFiles, promises as fsPromises } from 'plimsoll:fs';
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

/** `module` needs what stands on this table, and is added to it by `modules.js`. */
export function addWithFiles(name, exports) {
  withFiles.set(name, exports);
}

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

const bareName = (name) => (name.startsWith('node:') ? name.slice(5) : name);

/** The name without prefix of a built-in module that is here; undefined for any other. */
export function builtinName(name) {
  const bare = bareName(name);
  return builtins.has(bare) || (withFiles.has(bare) && hasFiles()) ? bare : undefined;
}

/** A built-in module by its name without prefix. */
export const builtin = (bare) => builtins.get(bare) ?? withFiles.get(bare);

export const builtinNames = () => [...builtins.keys(), ...(hasFiles() ? withFiles.keys() : [])];

/** Whether a name is that of a file, not of a package. */
export const isPath = (name) => /^(?:\.{0,2}\/|\.{1,2}$)/.test(name);

/** What to do about a module that is not here. */
export function remedy(name) {
  const bare = bareName(name);
  if (remedies.has(bare)) return remedies.get(bare);
  if (isPath(name) || name.startsWith('file:')) return hasFiles() ? 'there is no such file here' : files;
  if (absent.has(bare) || name.startsWith('node:')) {
    return `it is not part of this sandbox; available are ${builtinNames().join(', ')}`;
  }
  return hasFiles()
    ? 'packages cannot be installed in this sandbox; send the files of the package below node_modules, or write the few lines needed'
    : 'packages cannot be installed in this sandbox; write the few lines needed into the program';
}

/** Node writes the code of these errors into the properties only. */
export function uncodedStack(error, code) {
  delete error.toString;
  error.stack = String(error.stack).replace(` [${code}]`, '');
  Object.defineProperty(error, 'stack', { enumerable: false });
  return error;
}

/** What `require` throws for a name it does not find. */
export function missing(name, parent) {
  const error = codedError(Error, 'MODULE_NOT_FOUND', `Cannot find module '${name}': ${remedy(name)}`);
  error.requireStack = [parent];
  return uncodedStack(error, 'MODULE_NOT_FOUND');
}
