// ES modules among a run's files. The engine asks four things: what a specifier means, what stands there, the exports of what is no
// ES module, and what goes into `import.meta`. It knows a module by a name: the URL of a file, or `builtin:` and a module of node.
import { codedError } from 'plimsoll:internal/errors';
import { native } from 'plimsoll:internal/native';
import { builtin, builtinName, isPath, remedy } from 'plimsoll:builtins';
import { CONDITIONS, asAny, formatOf, resolvePackage, resolveRequire, textOf } from 'plimsoll:internal/resolve';
import { exportsOf } from 'plimsoll:internal/exports';
import { isModule, load, parse } from 'plimsoll:modules';
import { hasFiles, isFile, isFolder } from 'plimsoll:fs';
import { cwd } from 'plimsoll:internal/work';
import { URL } from 'plimsoll:internal/url';
import path from 'node:path';
import url from 'node:url';

const { posix } = path;

/** A path that stands in a URL as it is. Most do, and need no URL to be taken apart or put together. */
const PLAIN = /^\/[\w./@+~-]*$/;
const SCHEME = 'file://';

export const urlOf = (file) => (PLAIN.test(file) ? SCHEME + file : url.pathToFileURL(file).href);

function fileOf(name) {
  const rest = name.slice(SCHEME.length);
  return PLAIN.test(rest) ? rest : url.fileURLToPath(name.replace(/[?#].*$/, ''));
}

/** Where a specifier is relative to: the module or CommonJS file that names it, or the work directory. */
function baseOf(name) {
  if (name.startsWith('file:')) return name;
  return urlOf(posix.isAbsolute(name) ? name : posix.join(cwd(), name));
}

function notFound(what, base, remedied) {
  const from = base.startsWith('file:') ? fileOf(base) : base;
  return codedError(Error, 'ERR_MODULE_NOT_FOUND', `Cannot find ${what} imported from ${from}: ${remedied}`);
}

/** The URL of a file, and its path. */
function placeOf(specifier, base) {
  const plain = posix.join('/', specifier);
  if (!specifier.startsWith(SCHEME) && PLAIN.test(plain) && !plain.endsWith('/')) {
    const file = posix.resolve(posix.dirname(fileOf(baseOf(base))), specifier);
    return { href: urlOf(file), file };
  }
  const found = new URL(specifier, baseOf(base));
  if (/%2f|%5c/i.test(found.pathname)) {
    throw codedError(TypeError, 'ERR_INVALID_MODULE_SPECIFIER', `Invalid module "${specifier}": must not include encoded "/" or "\\" characters`);
  }
  return { href: found.href, file: url.fileURLToPath(new URL(found.pathname, 'file:///')) };
}

function resolveFile(specifier, base) {
  const { href, file } = placeOf(specifier, base);
  if (isFile(file)) return href;
  const meant = asAny(file, file);
  const hint = meant === undefined ? '' : `; did you mean to import "${meant}"? An import names the whole file`;
  if (isFolder(file)) {
    throw codedError(Error, 'ERR_UNSUPPORTED_DIR_IMPORT', `Directory import '${file}' is not supported${hint}`, { url: href });
  }
  throw notFound(`module '${file}'`, base, hint === '' ? remedy(specifier) : hint.slice(2));
}

/** The name of the module that a specifier means. */
export function resolve(specifier, base) {
  const bare = builtinName(specifier);
  if (bare !== undefined) return `builtin:${bare}`;
  if (!hasFiles()) throw notFound(`module '${specifier}'`, base, remedy(specifier));
  if (isPath(specifier) || specifier.startsWith('file:')) return resolveFile(specifier, base);
  if (/^(?!node:)[a-z][a-z0-9+.-]*:/i.test(specifier)) {
    throw codedError(
      Error, 'ERR_UNSUPPORTED_ESM_URL_SCHEME',
      `Cannot import '${specifier}': only files and the modules of node can be imported here; there is no network`,
    );
  }
  const file = resolvePackage(specifier, posix.dirname(fileOf(baseOf(base))), CONDITIONS.import);
  if (file === undefined) {
    throw notFound(`${specifier.startsWith('node:') ? 'module' : 'package'} '${specifier}'`, base, remedy(specifier));
  }
  if (!isFile(file)) throw notFound(`module '${file}'`, base, 'there is no such file here');
  return urlOf(file);
}

/** The names a CommonJS file exports, those it passes on included; `default` is added to them. */
function namesOf(file, seen = new Set()) {
  seen.add(file);
  const { names, passedOn } = exportsOf(textOf(file));
  for (const specifier of passedOn) {
    const found = resolveRequire(specifier, posix.dirname(file));
    if (found?.builtin !== undefined) {
      for (const name of exportedBy(builtin(found.builtin))) names.add(name);
    } else if (found !== undefined && !seen.has(found.file) && formatOf(found.file) !== 'json' && !isModule(found.file)) {
      for (const name of namesOf(found.file, seen)) names.add(name);
    }
  }
  return names;
}

const exportedBy = (exports) => Object.keys(exports).filter((name) => name !== 'default');

/** What is exported under which name: filled when a module is declared, asked for when its turn has come. */
const declared = new Map();

/** A module that is no ES module: its names now, their values when `exports` is called. */
function foreign(name, names, exports) {
  const listed = ['default', ...new Set([...names].filter((one) => one !== 'default'))];
  declared.set(name, { listed, exports });
  return listed;
}

function loadModule(name, type) {
  if (name.startsWith('builtin:')) {
    const exports = builtin(name.slice('builtin:'.length));
    return foreign(name, exportedBy(exports), () => exports);
  }
  const file = fileOf(name);
  const format = formatOf(file);
  if (format === 'json') {
    if (type !== 'json') {
      throw codedError(
        TypeError, 'ERR_IMPORT_ATTRIBUTE_MISSING', `Module "${name}" needs an import attribute of "type: json"`,
      );
    }
    const exports = parse(file);
    return foreign(name, [], () => exports);
  }
  if (type !== undefined) {
    throw codedError(TypeError, 'ERR_IMPORT_ATTRIBUTE_TYPE_INCOMPATIBLE', `Module "${name}" is not of type "${type}"`);
  }
  if (format === 'unknown') {
    throw codedError(TypeError, 'ERR_UNKNOWN_FILE_EXTENSION', `Unknown file extension "${posix.extname(file)}" for ${file}`);
  }
  if (isModule(file)) return textOf(file);
  return foreign(name, namesOf(file), () => load(file, { path: posix.dirname(file), filename: file }).exports);
}

function valueOf(exports, name) {
  try {
    return exports?.[name];
  } catch {
    // A getter that throws is undefined to whoever imports it, as in node.
    return undefined;
  }
}

native.setResolve(resolve);
native.setLoad(loadModule);
native.setEvaluate((name) => {
  const { listed, exports } = declared.get(name);
  const made = exports();
  return listed.map((one) => (one === 'default' ? made : valueOf(made, one)));
});
native.setMeta((meta, name) => {
  const file = fileOf(name);
  meta.dirname = posix.dirname(file);
  meta.filename = file;
  meta.resolve = (specifier) => {
    const found = resolve(`${specifier}`, name);
    return found.startsWith('builtin:') ? `node:${found.slice('builtin:'.length)}` : found;
  };
  meta.url = name;
});
