// `process`: what a pure program may ask of it, and the ends of a run: exit codes, uncaught errors, unhandled rejections.
import { native } from 'plimsoll:internal/native';
import { codes, codedError, ERR_UNHANDLED_REJECTION } from 'plimsoll:internal/errors';
import { inspect } from 'plimsoll:internal/inspect';
import { isError } from 'plimsoll:internal/inspect-error';
import { describe } from 'plimsoll:internal/report';
import * as loop from 'plimsoll:internal/loop';
import { setStreams } from 'plimsoll:console';
import { cwd } from 'plimsoll:internal/work';
import EventEmitter from 'node:events';

// The API level this world follows; `release.name` says that it is not node itself.
const VERSION = '22.0.0';

/** `process.stdout` and `process.stderr`: every write is done when it returns. */
class OutputStream extends EventEmitter {
  constructor(fd) {
    super();
    this.fd = fd;
    this.writable = true;
    this.isTTY = false;
  }

  write(chunk, encoding, callback) {
    if (typeof encoding === 'function') callback = encoding;
    if (chunk === null) throw codedError(TypeError, 'ERR_STREAM_NULL_VALUES', 'May not write null values to stream');
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) {
      throw new codes.ERR_INVALID_ARG_TYPE('chunk', ['string', 'Buffer', 'TypedArray', 'DataView'], chunk);
    }
    native.write(this.fd, chunk);
    if (typeof callback === 'function') loop.nextTick(callback);
    return true;
  }

  end(chunk, encoding, callback) {
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) this.write(chunk, encoding);
    const last = [chunk, encoding, callback].find((one) => typeof one === 'function');
    if (last) loop.nextTick(last);
    return this;
  }

  cork() {}

  uncork() {}

  getColorDepth() {
    return 1;
  }

  hasColors() {
    return false;
  }
}

class Process extends EventEmitter {}
Object.defineProperty(Process, 'name', { value: 'process' });
Object.defineProperty(Process.prototype, Symbol.toStringTag, { value: 'process', configurable: true });

export const process = new Process();

let exitCode;
let exiting = false;

function checkedCode(code) {
  if (code === undefined || code === null) return undefined;
  if (typeof code === 'string' && /^-?\d+$/.test(code)) return Number(code);
  if (typeof code !== 'number') throw new codes.ERR_INVALID_ARG_TYPE('code', 'integer', code);
  if (!Number.isInteger(code)) throw new codes.ERR_OUT_OF_RANGE('code', 'an integer', code);
  return code;
}

function emitExit(code) {
  if (!exiting) {
    exiting = true;
    process.emit('exit', exitCode ?? code);
  }
  return exitCode ?? code;
}

function warn(text, name, code) {
  const tag = code === undefined ? '' : `[${code}] `;
  native.write(2, `(node:${process.pid}) ${tag}${name}: ${text}\n`);
}

const started = () => native.monotonic();

const members = {
  title: 'node',
  version: `v${VERSION}`,
  versions: { node: VERSION, quickjs: '0.16.2', unicode: '16.0' },
  arch: 'wasm32',
  platform: 'linux',
  release: { name: 'plimsoll' },
  argv: ['/usr/bin/node', '/main.js'],
  argv0: 'node',
  execArgv: [],
  execPath: '/usr/bin/node',
  env: {},
  pid: 1,
  ppid: 0,
  config: { target_defaults: {}, variables: {} },
  features: {},
  stdout: new OutputStream(1),
  stderr: new OutputStream(2),
  cwd,
  chdir() {
    throw codedError(Error, 'ENOENT', 'This sandbox has no directory to change to: there is no file system');
  },
  umask: () => 0o22,
  nextTick: loop.nextTick,
  uptime: () => started() / 1000,
  memoryUsage() {
    const used = native.memoryUsed();
    return { rss: used, heapTotal: used, heapUsed: used, external: 0, arrayBuffers: 0 };
  },
  cpuUsage: () => ({ user: 0, system: 0 }),
  resourceUsage: () => ({ userCPUTime: 0, systemCPUTime: 0, maxRSS: Math.ceil(native.memoryUsed() / 1024) }),
  getuid: () => 0,
  geteuid: () => 0,
  getgid: () => 0,
  getegid: () => 0,
  hrtime: Object.assign(
    (previous) => {
      const now = native.monotonic();
      const time = [Math.floor(now / 1000), (now % 1000) * 1e6];
      if (previous === undefined) return time;
      if (!Array.isArray(previous)) throw new codes.ERR_INVALID_ARG_TYPE('time', 'Array', previous);
      const nanoseconds = time[1] - previous[1];
      const borrow = nanoseconds < 0;
      return [time[0] - previous[0] - (borrow ? 1 : 0), nanoseconds + (borrow ? 1e9 : 0)];
    },
    { bigint: () => BigInt(native.monotonic()) * 1000000n },
  ),
  emitWarning(warning, type, code) {
    const options = type !== null && typeof type === 'object' ? type : { type, code };
    if (typeof warning !== 'string' && !(warning instanceof Error)) {
      throw new codes.ERR_INVALID_ARG_TYPE('warning', ['string', 'Error'], warning);
    }
    const error = warning instanceof Error ? warning : new Error(warning);
    if (!(warning instanceof Error)) {
      error.name = typeof options.type === 'string' ? options.type : 'Warning';
      if (options.code !== undefined) error.code = options.code;
      if (options.detail !== undefined) error.detail = options.detail;
    }
    loop.nextTick(() => {
      process.emit('warning', error);
      warn(error.message, error.name, error.code);
    });
  },
  exit(code) {
    const given = checkedCode(code);
    if (given !== undefined) exitCode = given;
    native.exit(emitExit(0));
  },
  reallyExit: (code) => native.exit(code ?? 0),
  abort: () => native.exit(134),
  kill() {
    throw codedError(Error, 'ESRCH', 'This sandbox has no processes to signal');
  },
  binding(name) {
    throw new Error(`No such module: ${name}`);
  },
};
for (const [key, value] of Object.entries(members)) {
  Object.defineProperty(process, key, { value, writable: true, enumerable: true, configurable: true });
}
Object.defineProperty(process, 'exitCode', {
  get: () => exitCode,
  set(code) {
    exitCode = checkedCode(code);
  },
  enumerable: true,
  configurable: true,
});

const emitWarning = (...args) => process.emitWarning(...args);
setStreams(process.stdout, process.stderr, OutputStream.prototype.write, emitWarning);
loop.setEmitWarning(emitWarning);

function fail(text, code) {
  native.write(2, `${text}\n`);
  exitCode = code;
  return emitExit(code);
}

function uncaught(error, origin, promise) {
  if (origin === 'unhandledRejection') {
    if (process.listenerCount('unhandledRejection') > 0) {
      process.emit('unhandledRejection', error, promise);
      return undefined;
    }
    if (!isError(error)) error = new ERR_UNHANDLED_REJECTION(inspect(error));
  }
  // A cell catches what its own code throws, as a prompt does; what its callbacks throw is told and ends nothing either.
  if (origin !== 'syntaxError' && origin !== 'cell') {
    process.emit('uncaughtExceptionMonitor', error, origin);
    if (process.listenerCount('uncaughtException') > 0) {
      process.emit('uncaughtException', error, origin);
      return undefined;
    }
  }
  if (native.cell() !== undefined) {
    native.write(2, `${describe(error)}\n`);
    return undefined;
  }
  return fail(describe(error), 1);
}

native.setUncaught(uncaught);
native.setExit((code) => {
  if (code === 13) native.write(2, 'Warning: Detected unsettled top-level await\n');
  if (process.listenerCount('exit') === 0) return exitCode ?? code;
  return emitExit(code);
});
loop.setBeforeExit(() => {
  if (native.cell() === undefined && process.listenerCount('beforeExit') > 0) process.emit('beforeExit', exitCode ?? 0);
});

export default process;
