// From the name a program gives a module to the file it means: node's rules for files, folders and packages.
import { codedError } from 'plimsoll:internal/errors';
import { builtinName, isPath } from 'plimsoll:builtins';
import fs, { isFile } from 'plimsoll:fs';
import path from 'node:path';

const { posix } = path;

/** What the two ways to ask for a module accept in a package's `exports`, `default` apart. */
export const CONDITIONS = { import: new Set(['node', 'import', 'default']), require: new Set(['node', 'require', 'default']) };

export const textOf = (file) => fs.readFileSync(file, 'utf8').replace(/^\ufeff/, '');

const manifests = new Map();

/** The package.json of a folder, read once; undefined if there is none. */
function manifestOf(folder) {
  const file = posix.join(folder, 'package.json');
  if (manifests.has(file)) return manifests.get(file);
  if (!isFile(file)) return undefined;
  let json;
  try {
    json = JSON.parse(textOf(file));
  } catch (error) {
    throw codedError(Error, 'ERR_INVALID_PACKAGE_CONFIG', `Invalid package config ${file}. ${error.message}`);
  }
  const manifest = { folder, json: json !== null && typeof json === 'object' ? json : {} };
  manifests.set(file, manifest);
  return manifest;
}

/** The manifest that a file stands under. */
function scopeOf(folder) {
  for (let at = folder; ; at = posix.dirname(at)) {
    if (posix.basename(at) === 'node_modules') return undefined;
    const manifest = manifestOf(at);
    if (manifest !== undefined) return manifest;
    if (at === '/') return undefined;
  }
}

/** How a file is read: `module`, `commonjs`, `json`; `unknown` for another ending, undefined where nothing says. */
export function formatOf(file) {
  const ending = posix.extname(file);
  if (ending === '.mjs') return 'module';
  if (ending === '.cjs') return 'commonjs';
  if (ending === '.json') return 'json';
  const type = scopeOf(posix.dirname(file))?.json.type;
  const known = ending === '.js' || ending === '';
  if (type === 'module') return known ? 'module' : 'unknown';
  if (!known) return 'unknown';
  return type === 'commonjs' ? 'commonjs' : undefined;
}

const asFile = (at) => ['', '.js', '.json', '.cjs'].map((ending) => at + ending).find(isFile);

function asFolder(at) {
  const { main } = manifestOf(at)?.json ?? {};
  if (typeof main === 'string') {
    const named = posix.resolve(at, main);
    const found = asFile(named) ?? asFile(posix.join(named, 'index'));
    if (found !== undefined) return found;
  }
  return asFile(posix.join(at, 'index'));
}

/** A file, a file whose ending is left out, or the main file of a folder. */
export const asAny = (at, name) => (/(?:^|\/)\.{0,2}$/.test(name) ? undefined : asFile(at)) ?? asFolder(at);

/** One entry of `exports` or `imports`: the path it leads to, null if it is forbidden, undefined if no condition is met. */
function target(entry, star, conditions) {
  if (typeof entry === 'string') return star === undefined ? entry : entry.replaceAll('*', () => star);
  if (Array.isArray(entry)) {
    for (const one of entry) {
      const found = target(one, star, conditions);
      if (found != null) return found;
    }
    return null;
  }
  if (entry === null || typeof entry !== 'object') return null;
  for (const condition of Object.keys(entry)) {
    if (!conditions.has(condition)) continue;
    const found = target(entry[condition], star, conditions);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Looks a key up among keys that may hold one `*`; the longest match wins. */
function matched(table, key, conditions) {
  if (Object.hasOwn(table, key) && !key.includes('*')) return target(table[key], undefined, conditions);
  let best;
  for (const pattern of Object.keys(table)) {
    const at = pattern.indexOf('*');
    if (at < 0 || !key.startsWith(pattern.slice(0, at)) || !key.endsWith(pattern.slice(at + 1))) continue;
    if (key.length >= pattern.length && (best === undefined || at > best.indexOf('*'))) best = pattern;
  }
  if (best === undefined) return undefined;
  const at = best.indexOf('*');
  return target(table[best], key.slice(at, key.length - (best.length - at - 1)), conditions);
}

function exported({ folder, json }, below, conditions) {
  const { exports } = json;
  const plain = exports === null || typeof exports !== 'object' || Array.isArray(exports);
  const table = plain || !Object.keys(exports).some((key) => key.startsWith('.')) ? { '.': exports } : exports;
  const found = matched(table, below, conditions);
  if (typeof found === 'string' && found.startsWith('./')) return posix.join(folder, found);
  throw codedError(
    Error, 'ERR_PACKAGE_PATH_NOT_EXPORTED',
    below === '.'
      ? `No "exports" main defined in ${posix.join(folder, 'package.json')}`
      : `Package subpath '${below}' is not defined by "exports" in ${posix.join(folder, 'package.json')}`,
  );
}

/** A `#name` of the package's own `imports`. */
function imported(name, folder, conditions) {
  const scope = scopeOf(folder);
  const found = scope?.json.imports && matched(scope.json.imports, name, conditions);
  if (typeof found === 'string') {
    return found.startsWith('./') ? posix.join(scope.folder, found) : packaged(found, scope.folder, conditions);
  }
  throw codedError(TypeError, 'ERR_PACKAGE_IMPORT_NOT_DEFINED', `Package import specifier "${name}" is not defined`);
}

/** The file of a package below one of the `node_modules` above a folder, or of the package the folder belongs to. */
function packaged(name, folder, conditions) {
  const [, own, rest] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(name) ?? [];
  if (own === undefined) return undefined;
  const scope = scopeOf(folder);
  if (scope?.json.name === own && scope.json.exports != null) return exported(scope, `.${rest}`, conditions);
  for (let at = folder; ; at = posix.dirname(at)) {
    if (posix.basename(at) !== 'node_modules') {
      const home = posix.join(at, 'node_modules', own);
      const manifest = manifestOf(home);
      if (manifest?.json.exports != null) return exported(manifest, `.${rest}`, conditions);
      const found = asAny(home + rest, rest || own);
      if (found !== undefined) return found;
    }
    if (at === '/') return undefined;
  }
}

/** What a CommonJS name means in a folder: a built-in module, or a file; undefined if there is neither. */
export function resolveRequire(name, folder) {
  const builtin = builtinName(name);
  if (builtin !== undefined) return { builtin };
  const file = isPath(name) ? asAny(posix.resolve(folder, name), name) : resolvePackage(name, folder, CONDITIONS.require);
  return file === undefined ? undefined : { file };
}

/** The file of a name that is neither a path nor built in; undefined if there is none. */
export function resolvePackage(name, folder, conditions) {
  if (name.startsWith('node:')) return undefined;
  return name.startsWith('#') ? imported(name, folder, conditions) : packaged(name, folder, conditions);
}
