// CommonJS: `require`, and the names of a main program.
import { codedError, codes } from 'plimsoll:internal/errors';
import { native } from 'plimsoll:internal/native';
import { hasFiles } from 'plimsoll:fs';
import { builtin, builtinName, builtinNames, addWithFiles, missing } from 'plimsoll:builtins';
import { formatOf, resolveRequire, textOf } from 'plimsoll:internal/resolve';
import path from 'node:path';
import url from 'node:url';

const { posix } = path;

export const module = {
  id: '.',
  path: '/',
  exports: {},
  filename: '/main.js',
  loaded: false,
  children: [],
  paths: ['/node_modules'],
};
let main = module;

const cache = Object.create(null);

function checked(name) {
  if (typeof name !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('id', 'string', name);
  if (name === '') throw new codes.ERR_INVALID_ARG_VALUE('id', name, 'must be a non-empty string');
  return name;
}

/** A built-in module or a file, for the module that asks. */
function resolve(name, { path: folder, filename }) {
  const found = builtinName(name) === undefined && !hasFiles() ? undefined : resolveRequire(name, folder);
  if (found === undefined) throw missing(name, filename);
  return found;
}

/** The `require` of a module. */
function requireOf(asking) {
  function require(name) {
    const found = resolve(checked(name), asking);
    return found.builtin === undefined ? load(found.file, asking).exports : builtin(found.builtin);
  }
  require.resolve = (name) => {
    const found = resolve(checked(name), asking);
    return found.builtin === undefined ? found.file : name;
  };
  require.resolve.paths = () => foldersAbove(asking.path);
  require.main = main;
  require.cache = cache;
  require.extensions = Object.create(null);
  return require;
}

export const require = requireOf(module);
module.require = require;

function foldersAbove(folder) {
  const found = [];
  for (let at = folder; ; at = posix.dirname(at)) {
    if (posix.basename(at) !== 'node_modules') found.push(posix.join(at, 'node_modules'));
    if (at === '/') return found;
  }
}

/** The work directory, where a run has one, is where its program stands. */
export function moveMain(folder) {
  module.path = folder;
  module.filename = posix.join(folder, 'main.js');
  module.paths = foldersAbove(folder);
}

const compiled = new Map();

/** The function a CommonJS file is the body of; kept for the module that asked only what kind of file it is. */
function bodyOf(file) {
  const kept = compiled.get(file);
  if (kept !== undefined) return kept;
  // Two lines above the file's first, so that its lines and columns are its own.
  const text = textOf(file).replace(/^#!.*/, '');
  const body = native.compile(`(function (exports, require, module, __filename, __dirname) {\n\n${text}\n})`, file, -1);
  compiled.set(file, body);
  return body;
}

const MODULE_SYNTAX = /^[\t ]*(?:import[\s{*"']|export[\s{*])|\bimport\.meta\b|\bawait\b/m;

/** Whether a file that nothing says the kind of is an ES module: it is no CommonJS, and looks like one. */
export function isModule(file) {
  const format = formatOf(file);
  if (format !== undefined && format !== 'unknown') return format === 'module';
  try {
    bodyOf(file);
    return false;
  } catch (error) {
    return error instanceof SyntaxError && MODULE_SYNTAX.test(textOf(file));
  }
}

function refuseModule(file, asking) {
  return codedError(
    Error, 'ERR_REQUIRE_ESM',
    `require() of ES Module ${file} from ${asking.filename} not supported.\nUse import('${file}') instead, which works in any file, or an import statement in an ES module.`,
  );
}

/** A file as a CommonJS module, evaluated once. `asking` is undefined for the main one. */
export function load(file, asking) {
  const known = cache[file];
  if (known !== undefined) return known;
  const folder = posix.dirname(file);
  const loaded = {
    id: asking === undefined ? '.' : file, path: folder, exports: {}, filename: file, loaded: false, children: [],
    paths: foldersAbove(folder),
  };
  const format = formatOf(file);
  if (format === 'module' || (format !== 'json' && isModule(file))) throw refuseModule(file, asking ?? loaded);
  if (asking === undefined) main = loaded;
  else asking.children?.push(loaded);
  loaded.require = requireOf(loaded);
  cache[file] = loaded;
  let done = false;
  try {
    if (format === 'json') loaded.exports = parse(file);
    else Reflect.apply(bodyOf(file), loaded.exports, [loaded.exports, loaded.require, loaded, file, folder]);
    done = true;
  } finally {
    if (!done) delete cache[file];
    compiled.delete(file);
  }
  loaded.loaded = true;
  return loaded;
}

export function parse(file) {
  try {
    return JSON.parse(textOf(file));
  } catch (error) {
    error.message = `${file}: ${error.message}`;
    throw error;
  }
}

function createRequire(from) {
  const isUrl = from instanceof URL || (typeof from === 'string' && from.startsWith('file:'));
  if (!isUrl && !(typeof from === 'string' && posix.isAbsolute(from))) {
    throw new codes.ERR_INVALID_ARG_VALUE('filename', from, 'must be a file URL object, file URL string, or absolute path string');
  }
  const file = isUrl ? url.fileURLToPath(from) : from;
  return requireOf({ path: file.endsWith('/') ? file : posix.dirname(file), filename: file });
}

const isBuiltin = (name) => builtinName(String(name)) !== undefined;

addWithFiles('module', {
  createRequire,
  isBuiltin,
  get builtinModules() {
    return builtinNames();
  },
});

