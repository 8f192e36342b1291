// `util.format`: printf-like placeholders, the rest of the arguments inspected and joined with spaces.
import { native } from 'plimsoll:kernel/native';
import { programStringify } from 'plimsoll:kernel/realm';
import { inspect, defaultOptions, formatNumber, formatBigInt } from 'plimsoll:internal/inspect';
import { isBuiltInName } from 'plimsoll:internal/inspect-names';

/** `%s` calls the `toString` of a class of the program, and inspects what only has a built-in one. */
function hasBuiltInToString(value) {
  const proxy = native.proxyDetails(value);
  if (proxy !== undefined) {
    if (proxy[0] === null) return true;
    value = proxy[0];
  }
  if (Object.hasOwn(value, 'toString') || Object.hasOwn(value, Symbol.toPrimitive)) return false;
  if (typeof value.toString !== 'function' && typeof value[Symbol.toPrimitive] !== 'function') return true;
  let pointer = value;
  do {
    pointer = Object.getPrototypeOf(pointer);
  } while (pointer !== null && !Object.hasOwn(pointer, 'toString') && !Object.hasOwn(pointer, Symbol.toPrimitive));
  if (pointer === null) return true;
  const constructor = Object.getOwnPropertyDescriptor(pointer, 'constructor')?.value;
  return typeof constructor === 'function' && isBuiltInName(constructor.name);
}

function stringify(value) {
  try {
    return programStringify(value);
  } catch (error) {
    if (error.name === 'TypeError' && /circular/i.test(error.message)) return '[Circular]';
    throw error;
  }
}

function numeric(value, convert, options) {
  const ctx = { stylize: (text) => text, numericSeparator: options?.numericSeparator ?? defaultOptions.numericSeparator };
  if (typeof value === 'bigint' && convert !== Number.parseFloat) return formatBigInt(ctx, value);
  if (typeof value === 'symbol') return 'NaN';
  if (convert === Number && typeof value === 'object') return formatNumber(ctx, Number(value));
  return formatNumber(ctx, convert(value));
}

function asString(value, options) {
  if (typeof value === 'number' || typeof value === 'bigint') return numeric(value, Number, options);
  if (typeof value !== 'object' || value === null || !hasBuiltInToString(value)) return String(value);
  return inspect(value, { ...options, depth: 0, colors: false, compact: 3 });
}

function placeholder(code, value, options) {
  switch (code) {
    case 115: // s
      return asString(value, options);
    case 106: // j
      return stringify(value);
    case 100: // d
      return numeric(value, Number, options);
    case 105: // i
      return typeof value === 'object' && value !== null
        ? numeric(Number.parseInt(value), Number, options)
        : numeric(value, Number.parseInt, options);
    case 102: // f
      return numeric(value, Number.parseFloat, options);
    case 79: // O
      return inspect(value, options);
    case 111: // o
      return inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 });
    default: // c: a style, which a terminal has no use for
      return '';
  }
}

const PLACEHOLDERS = new Set([115, 106, 100, 105, 102, 79, 111, 99]);

export function formatArguments(options, args) {
  const first = args[0];
  let next = 0;
  let text = '';
  if (typeof first === 'string') {
    if (args.length === 1) return first;
    let from = 0;
    for (let i = 0; i < first.length - 1; i++) {
      if (first.charCodeAt(i) !== 37) continue;
      const code = first.charCodeAt(++i);
      if (code === 37) {
        text += first.slice(from, i);
        from = i + 1;
      } else if (next + 1 !== args.length && PLACEHOLDERS.has(code)) {
        text += first.slice(from, i - 1) + placeholder(code, args[++next], options);
        from = i + 1;
      }
    }
    text += first.slice(from);
    next++;
  }
  for (let i = next; i < args.length; i++) {
    if (i > 0) text += ' ';
    const value = args[i];
    text += typeof value === 'string' ? value : inspect(value, options);
  }
  return text;
}

export const format = (...args) => formatArguments(undefined, args);
export const formatWithOptions = (options, ...args) => formatArguments(options, args);
