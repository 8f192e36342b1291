// `fs` and `fs/promises` over the files of a project or session: a tree in memory that the host holds. Absent in a run that has
// none.
import { native } from 'plimsoll:internal/native';
import { codedError, codes } from 'plimsoll:internal/errors';
import * as loop from 'plimsoll:internal/loop';
import { Buffer } from 'node:buffer';
import path from 'node:path';
import { URL } from 'plimsoll:internal/url';
import process from 'node:process';
import { cwd, stand } from 'plimsoll:internal/work';

const READ = 0, WRITE = 1, APPEND = 2, MKDIR = 3, LIST = 4, STAT = 5, RENAME = 6, UNLINK = 7, RMDIR = 8, REMOVE = 9,
  COPY = 10;
const FOLDER = 2 ** 52;
/** Every entry is as old as the run's clock. */
const BORN = 1640995200000;

const ERRORS = new Map([
  [2, ['ENOENT', 'no such file or directory']],
  [16, ['EBUSY', 'resource busy or locked']],
  [17, ['EEXIST', 'file already exists']],
  [20, ['ENOTDIR', 'not a directory']],
  [21, ['EISDIR', 'illegal operation on a directory']],
  [22, ['EINVAL', 'invalid argument']],
  [28, ['ENOSPC', 'no space left on device']],
  [36, ['ENAMETOOLONG', 'name too long']],
  [38, ['ENOSYS', 'function not implemented']],
  [39, ['ENOTEMPTY', 'directory not empty']],
]);

/** Whether this run has files at all. */
export const hasFiles = () => native.files(STAT, '/') >= 0;

/** Whether an absolute path is that of a file. */
export function isFile(name) {
  const size = native.files(STAT, name);
  return size >= 0 && size !== FOLDER;
}

/** Whether an absolute path is that of a folder. */
export const isFolder = (name) => native.files(STAT, name) === FOLDER;

function failure(number, syscall, from, to) {
  const [code, text] = ERRORS.get(-number);
  const error = new Error(`${code}: ${text}, ${syscall} '${from}'${to === undefined ? '' : ` -> '${to}'`}`);
  Object.assign(error, { errno: number, code, syscall, path: from });
  if (to !== undefined) error.dest = to;
  return error;
}

/** Node opens a folder, and only fails to read it. */
function readOfFolder() {
  const error = new Error('EISDIR: illegal operation on a directory, read');
  return Object.assign(error, { errno: -21, code: 'EISDIR', syscall: 'read' });
}

function named(name, argument = 'path') {
  if (name instanceof URL && name.protocol === 'file:') return decodeURIComponent(name.pathname);
  if (name instanceof Uint8Array) return Buffer.from(name).toString();
  if (typeof name !== 'string') throw new codes.ERR_INVALID_ARG_TYPE(argument, ['string', 'Buffer', 'URL'], name);
  if (name.includes('\0')) throw new codes.ERR_INVALID_ARG_VALUE(argument, name, 'must be a string, Uint8Array, or URL without null bytes');
  return name;
}

const place = (name) => {
  const full = path.posix.resolve(cwd(), name);
  return full.length > 1 && full.endsWith('/') ? full.slice(0, -1) : full;
};

function ask(operation, syscall, name, data) {
  const answer = native.files(operation, place(name), data);
  if (typeof answer === 'number' && answer < 0) throw failure(answer, syscall, name, operation === RENAME ? data : undefined);
  return answer;
}

const encodingOf = (options) => (typeof options === 'string' ? options : options?.encoding);
const text = (bytes, encoding) => (encoding && encoding !== 'buffer' ? bytes.toString(encoding) : bytes);

function bytesOf(data, options) {
  if (typeof data === 'string') return Buffer.from(data, encodingOf(options) ?? 'utf8');
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new codes.ERR_INVALID_ARG_TYPE('data', ['string', 'Buffer', 'TypedArray', 'DataView'], data);
}

export class Stats {
  constructor(size) {
    const folder = size === FOLDER;
    Object.assign(this, {
      dev: 1, mode: folder ? 0o40755 : 0o100644, nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096, ino: 0,
      size: folder ? 0 : size, blocks: folder ? 0 : Math.ceil(size / 512),
      atimeMs: BORN, mtimeMs: BORN, ctimeMs: BORN, birthtimeMs: BORN,
      atime: new Date(BORN), mtime: new Date(BORN), ctime: new Date(BORN), birthtime: new Date(BORN),
    });
  }

  isFile() {
    return (this.mode & 0o170000) === 0o100000;
  }

  isDirectory() {
    return (this.mode & 0o170000) === 0o40000;
  }

  isSymbolicLink() {
    return false;
  }
}

export class Dirent {
  #folder;

  constructor(name, parentPath, folder) {
    this.name = name;
    this.parentPath = parentPath;
    this.path = parentPath;
    this.#folder = folder;
  }

  isFile() {
    return !this.#folder;
  }

  isDirectory() {
    return this.#folder;
  }

  isSymbolicLink() {
    return false;
  }
}

function entries(name) {
  const listed = ask(LIST, 'scandir', name);
  if (listed.length === 0) return [];
  return Buffer.from(listed).toString().split('\0').map((entry) => ({ name: entry.slice(1), folder: entry[0] === 'd' }));
}

function walk(name, recursive, below = '') {
  return entries(path.posix.join(name, below)).flatMap((entry) => {
    const one = { ...entry, at: path.posix.join(below, entry.name), parent: path.posix.join(name, below) };
    return recursive && entry.folder ? [one, ...walk(name, true, one.at)] : [one];
  });
}

const sizeOf = (syscall, name) => ask(STAT, syscall, name);

const sync = {
  readFile(name, options) {
    name = named(name);
    const bytes = native.files(READ, place(name));
    if (typeof bytes === 'number') throw bytes === -21 ? readOfFolder() : failure(bytes, 'open', name);
    return text(Buffer.from(bytes.buffer), encodingOf(options));
  },
  writeFile(name, data, options) {
    const flag = typeof options === 'object' ? options?.flag : undefined;
    name = named(name);
    if (flag?.includes('x') && native.files(STAT, place(name)) >= 0) throw failure(-17, 'open', name);
    ask(flag?.startsWith('a') ? APPEND : WRITE, 'open', name, bytesOf(data, options));
  },
  appendFile(name, data, options) {
    ask(APPEND, 'open', named(name), bytesOf(data, options));
  },
  mkdir(name, options) {
    name = named(name);
    if (!options?.recursive) return void ask(MKDIR, 'mkdir', name);
    const full = place(name);
    let first;
    for (let end = full.indexOf('/', 1); ; end = full.indexOf('/', end + 1)) {
      const at = end < 0 ? full : full.slice(0, end);
      const answer = native.files(MKDIR, at);
      if (answer === 0) first ??= at;
      else if (answer !== -17) throw failure(answer, 'mkdir', name);
      else if (native.files(STAT, at) !== FOLDER) throw failure(end < 0 ? -17 : -20, 'mkdir', name);
      if (end < 0) break;
    }
    return first;
  },
  readdir(name, options) {
    name = named(name);
    const found = walk(name, options?.recursive === true);
    if (options?.withFileTypes) return found.map((entry) => new Dirent(entry.name, entry.parent, entry.folder));
    return found.map((entry) => entry.at);
  },
  stat(name, options) {
    name = named(name);
    if (options?.throwIfNoEntry === false && native.files(STAT, place(name)) === -2) return undefined;
    return new Stats(sizeOf('stat', name));
  },
  lstat(name, options) {
    name = named(name);
    if (options?.throwIfNoEntry === false && native.files(STAT, place(name)) === -2) return undefined;
    return new Stats(sizeOf('lstat', name));
  },
  access(name) {
    sizeOf('access', named(name));
  },
  rename(from, to) {
    to = named(to, 'newPath');
    from = named(from, 'oldPath');
    const answer = native.files(RENAME, place(from), place(to));
    if (answer < 0) throw failure(answer, 'rename', from, to);
  },
  unlink(name) {
    ask(UNLINK, 'unlink', named(name));
  },
  rmdir(name) {
    ask(RMDIR, 'rmdir', named(name));
  },
  rm(name, options) {
    name = named(name);
    const there = native.files(STAT, place(name));
    if (there < 0) {
      if (options?.force && there === -2) return;
      throw failure(there, 'lstat', name);
    }
    if (there === FOLDER && !options?.recursive) {
      throw codedError(Error, 'ERR_FS_EISDIR', `Path is a directory: rm returned EISDIR (is a directory) ${name}`);
    }
    ask(there === FOLDER ? REMOVE : UNLINK, 'rm', name);
  },
  copyFile(from, to, mode) {
    from = named(from, 'src');
    to = named(to, 'dest');
    if ((mode & constants.COPYFILE_EXCL) !== 0 && native.files(STAT, place(to)) >= 0) throw failure(-17, 'copyfile', from, to);
    const answer = native.files(COPY, place(from), place(to));
    if (answer < 0) throw failure(answer, 'copyfile', from, to);
  },
  cp(from, to, options) {
    from = named(from, 'src');
    to = named(to, 'dest');
    const refusal = (problem) => codedError(Error, 'ERR_FS_CP_EINVAL', problem);
    const [source, target] = [place(from), place(to)];
    if (target === source) throw refusal(`src and dest cannot be the same ${to}`);
    if (sizeOf('cp', from) !== FOLDER) {
      sync.mkdir(path.posix.dirname(place(to)), { recursive: true });
      return sync.copyFile(from, to);
    }
    if (!options?.recursive) throw failure(-21, 'cp', from, to);
    if (target.startsWith(source === '/' ? source : `${source}/`)) {
      throw refusal(`Cannot copy ${from} to a subdirectory of self ${to}`);
    }
    const found = walk(from, true);
    sync.mkdir(to, { recursive: true });
    for (const { at, folder } of found) {
      const copy = path.posix.join(to, at);
      if (folder) sync.mkdir(copy, { recursive: true });
      else sync.copyFile(path.posix.join(from, at), copy);
    }
  },
  realpath(name, options) {
    name = named(name);
    sizeOf('realpath', name);
    return text(Buffer.from(place(name)), encodingOf(options) ?? 'utf8');
  },
};

export const constants = { F_OK: 0, X_OK: 1, W_OK: 2, R_OK: 4, COPYFILE_EXCL: 1 };

/** The forms that answer later; what they do is done at once. */
export const promises = { constants };
const fs = { constants, promises, Stats, Dirent };
for (const [name, operation] of Object.entries(sync)) {
  fs[`${name}Sync`] = operation;
  promises[name] = { async [name](...args) {
    return operation(...args);
  } }[name];
  fs[name] = { [name](...args) {
    const callback = args.pop();
    if (typeof callback !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('cb', 'function', callback);
    let outcome;
    try {
      outcome = [null, operation(...args)];
    } catch (error) {
      if (error?.code?.startsWith('ERR_INVALID_ARG')) throw error;
      outcome = [error];
    }
    loop.setImmediate(() => callback(...outcome));
  } }[name];
}
fs.existsSync = (name) => {
  try {
    return native.files(STAT, place(named(name))) >= 0;
  } catch {
    return false;
  }
};

const chdirAtRoot = process.chdir;
process.chdir = {
  chdir(directory) {
    if (!hasFiles()) return chdirAtRoot(directory);
    if (typeof directory !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('directory', 'string', directory);
    const there = native.files(STAT, place(directory));
    if (there !== FOLDER) throw failure(there < 0 ? there : -20, 'chdir', cwd(), directory);
    stand(place(directory));
  },
}.chdir;

export default fs;
