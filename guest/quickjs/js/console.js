// `console`. Lines of primitives take a short path that touches neither the formatter nor the inspector.
import { native } from 'plimsoll:kernel/native';
import { formatArguments } from 'plimsoll:internal/format';
import { inspect } from 'plimsoll:internal/inspect';
import { renderTable } from 'plimsoll:internal/table';
import { codes } from 'plimsoll:internal/errors';

const { write, monotonic } = native;
const STDOUT = 1;
const STDERR = 2;

let indent = '';

// A program may replace `process.stdout.write` to see what is printed; until it does, lines go straight to the host.
const streams = { plainWrite: undefined, emitWarning: undefined, [STDOUT]: { write: undefined }, [STDERR]: { write: undefined } };

/** `process` hands over its streams, the `write` they start with and how a warning is told. */
export function setStreams(stdout, stderr, plainWrite, emitWarning) {
  streams[STDOUT] = stdout;
  streams[STDERR] = stderr;
  streams.plainWrite = plainWrite;
  streams.emitWarning = emitWarning;
}
const counts = new Map();
const timers = new Map();

/** One argument as `console.log` prints it, or undefined if it takes the inspector. */
function simple(value) {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      return value === 0 && 1 / value < 0 ? '-0' : `${value}`;
    case 'boolean':
    case 'undefined':
      return `${value}`;
    case 'bigint':
      return `${value}n`;
    default:
      return value === null ? 'null' : undefined;
  }
}

function lineOf(args) {
  if (args.length === 1) return simple(args[0]) ?? formatArguments(undefined, args);
  const first = args[0];
  if (typeof first === 'string' && first.includes('%')) return formatArguments(undefined, args);
  let line = '';
  for (let i = 0; i < args.length; i++) {
    const text = simple(args[i]);
    if (text === undefined) return formatArguments(undefined, args);
    line += i === 0 ? text : ` ${text}`;
  }
  return line;
}

function emit(fd, line) {
  if (indent !== '') line = indent + (line.includes('\n') ? line.replaceAll('\n', `\n${indent}`) : line);
  line = `${line}\n`;
  const stream = streams[fd];
  if (stream.write === streams.plainWrite) write(fd, line);
  else stream.write(line);
}

const { captureStackTrace } = Error;
const DIR_OPTIONS = { customInspect: false };

/** Node's units: ms below a second, then s, min, h, with three decimals or clock digits. */
function elapsed(ms) {
  if (ms >= 3600000) {
    const seconds = Math.floor(ms / 1000);
    const two = (n) => String(n).padStart(2, '0');
    return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)} (h:mm:ss)`;
  }
  if (ms >= 60000) {
    const seconds = ms / 1000;
    return `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(3).padStart(6, '0')} (m:ss.mmm)`;
  }
  if (ms >= 1000) return `${(ms / 1000).toFixed(3)}s`;
  return `${Number(ms.toFixed(3))}ms`;
}

function warn(text) {
  streams.emitWarning(text);
}

function timeRunning(label, method) {
  if (timers.has(label)) return true;
  warn(`No such label '${label}' for console.${method}()`);
  return false;
}

const methods = {
  log(...args) {
    emit(STDOUT, lineOf(args));
  },
  warn(...args) {
    emit(STDERR, lineOf(args));
  },
  dir(value, options) {
    emit(STDOUT, inspect(value, { ...DIR_OPTIONS, ...options }));
  },
  time(label = 'default') {
    label = `${label}`;
    if (timers.has(label)) {
      warn(`Label '${label}' already exists for console.time()`);
      return;
    }
    timers.set(label, monotonic());
  },
  timeEnd(label = 'default') {
    label = `${label}`;
    if (!timeRunning(label, 'timeEnd')) return;
    emit(STDOUT, `${label}: ${elapsed(monotonic() - timers.get(label))}`);
    timers.delete(label);
  },
  timeLog(label = 'default', ...data) {
    label = `${label}`;
    if (!timeRunning(label, 'timeLog')) return;
    const head = `${label}: ${elapsed(monotonic() - timers.get(label))}`;
    emit(STDOUT, data.length === 0 ? head : formatArguments(undefined, ['%s', head, ...data]));
  },
  trace(...args) {
    const error = { name: 'Trace', message: formatArguments(undefined, args) };
    captureStackTrace(error, methods.trace);
    const frames = String(error.stack).split('\n').filter((line) => /^\s+at /.test(line));
    emit(STDERR, [`Trace${error.message === '' ? '' : `: ${error.message}`}`, ...frames].join('\n'));
  },
  assert(condition, ...args) {
    if (condition) return;
    if (typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
    else args.unshift(args.length === 0 ? 'Assertion failed' : 'Assertion failed:');
    emit(STDERR, formatArguments(undefined, args));
  },
  clear() {},
  count(label = 'default') {
    label = `${label}`;
    const count = (counts.get(label) ?? 0) + 1;
    counts.set(label, count);
    emit(STDOUT, `${label}: ${count}`);
  },
  countReset(label = 'default') {
    label = `${label}`;
    if (!counts.delete(label)) warn(`Count for '${label}' does not exist`);
  },
  group(...args) {
    if (args.length > 0) emit(STDOUT, lineOf(args));
    indent += '  ';
  },
  groupEnd() {
    indent = indent.slice(2);
  },
  table(data, properties) {
    if (properties !== undefined && !Array.isArray(properties)) {
      throw new codes.ERR_INVALID_ARG_TYPE('properties', 'Array', properties);
    }
    const table = data === null || typeof data !== 'object' ? undefined : renderTable(data, properties);
    emit(STDOUT, table ?? lineOf([data]));
  },
  profile() {},
  profileEnd() {},
  timeStamp() {},
};

/** The global console: own, writable methods on an object that says it is a console. */
export const console = Object.create({});
for (const [name, method] of Object.entries(methods)) {
  Object.defineProperty(method, 'name', { value: name });
  console[name] = method;
}
console.debug = console.log;
console.info = console.log;
console.dirxml = console.log;
console.error = console.warn;
console.groupCollapsed = console.group;
Object.defineProperty(console, Symbol.toStringTag, { value: 'console', configurable: true });

/** `new console.Console(stdout, stderr)`: the same methods on streams of the program. */
export class Console {
  constructor(stdout, stderr) {
    const options = typeof stdout?.write === 'function' ? { stdout, stderr } : { ...stdout };
    if (typeof options.stdout?.write !== 'function') {
      throw new codes.ERR_INVALID_ARG_TYPE('stdout', 'WriteStream', options.stdout);
    }
    const out = options.stdout;
    const err = options.stderr ?? out;
    const inspectOptions = options.inspectOptions;
    let depth = '';
    const line = (stream) => (...args) => {
      const text = formatArguments(inspectOptions, args).replaceAll('\n', `\n${depth}`);
      stream.write(`${depth}${text}\n`);
    };
    const log = line(out);
    const warning = line(err);
    Object.assign(this, {
      log, info: log, debug: log, dirxml: log, warn: warning, error: warning, trace: warning,
      dir: (value, opts) => log(inspect(value, { ...DIR_OPTIONS, ...opts })),
      table: (data, properties) => log((data !== null && typeof data === 'object' && renderTable(data, properties)) || data),
      assert: (condition, ...args) => condition || warning(...(args.length ? ['Assertion failed:', ...args] : ['Assertion failed'])),
      group: (...args) => {
        if (args.length > 0) log(...args);
        depth += '  ';
      },
      groupEnd: () => {
        depth = depth.slice(2);
      },
    });
  }
}
console.Console = Console;

export default console;
