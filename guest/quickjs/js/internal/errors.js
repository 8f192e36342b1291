// Errors with a `code`, worded as node words them.
import { programPrototypes } from 'plimsoll:kernel/realm';
import { inspect } from 'plimsoll:internal/inspect';

const programFunction = programPrototypes.get(Function.prototype);

/** An error of class `Base` that prints its code after its name, as node's own do. */
export function codedError(Base, code, message, properties) {
  const error = new Base(message);
  const { stack } = error;
  Object.defineProperty(error, 'stack', {
    value: typeof stack === 'string' ? stack.replace(error.name, `${error.name} [${code}]`) : stack,
    writable: true,
    configurable: true,
    enumerable: false,
  });
  const toString = {
    toString() {
      return `${this.name} [${code}]: ${this.message}`;
    },
  }.toString;
  Object.defineProperty(error, 'toString', {
    value: Object.setPrototypeOf(toString, programFunction),
    writable: true,
    configurable: true,
    enumerable: false,
  });
  error.code = code;
  return Object.assign(error, properties);
}

/** A constructor-like for one code: `new ERR_X(...)` and `ERR_X(...)` both give the coded error. */
function define(code, Base, describe) {
  function CodedError(...args) {
    return codedError(Base, code, describe(...args));
  }
  Object.defineProperty(CodedError, 'name', { value: code });
  return CodedError;
}

function quoteShort(value, length) {
  const text = inspect(value);
  return text.length > length ? `${text.slice(0, length)}...` : text;
}

/** " Received …": what the caller gave, told by type. */
export function received(value) {
  if (value == null) return ` Received ${value}`;
  if (typeof value === 'function') return ` Received function ${value.name}`;
  if (typeof value === 'object') {
    if (value.constructor?.name) return ` Received an instance of ${value.constructor.name}`;
    return ` Received ${inspect(value, { depth: -1 })}`;
  }
  return ` Received type ${typeof value} (${quoteShort(value, 25)})`;
}

const PRIMITIVES = new Set(['string', 'function', 'number', 'object', 'boolean', 'bigint', 'symbol']);

function list(words, kind) {
  if (words.length > 2) return `one ${kind} ${words.slice(0, -1).join(', ')}, or ${words.at(-1)}`;
  if (words.length === 2) return `one ${kind} ${words[0]} or ${words[1]}`;
  return `${kind} ${words[0]}`;
}

/** "must be of type string or an instance of Buffer": types, classes and other descriptions in that order. */
function expectation(expected) {
  const wanted = Array.isArray(expected) ? expected : [expected];
  const typeNames = [];
  const classes = [];
  const others = [];
  for (const item of wanted) {
    if (PRIMITIVES.has(item.toLowerCase()) && item !== 'Object') typeNames.push(item.toLowerCase());
    else if (/^[A-Z][a-zA-Z0-9]*$/.test(item) && item !== 'Object') classes.push(item);
    else if (item === 'Object') typeNames.push('object');
    else others.push(item);
  }
  const parts = [];
  const or = (words) => (words.length > 2 ? `${words.slice(0, -1).join(', ')}, or ${words.at(-1)}` : words.join(' or '));
  if (typeNames.length > 0) parts.push(typeNames.length > 1 ? `one of type ${or(typeNames)}` : `of type ${typeNames[0]}`);
  if (classes.length > 0) parts.push(`an instance of ${or(classes)}`);
  if (others.length > 1) parts.push(list(others, 'of'));
  else if (others.length === 1) parts.push(others[0] === others[0].toLowerCase() ? others[0] : `an ${others[0]}`);
  return parts.join(' or ');
}

export const ERR_INVALID_ARG_TYPE = define('ERR_INVALID_ARG_TYPE', TypeError, (name, expected, actual) => {
  const subject = name.endsWith(' argument')
    ? `The ${name}`
    : `The "${name}" ${name.includes('.') ? 'property' : 'argument'}`;
  return `${subject} must be ${expectation(expected)}.${received(actual)}`;
});

const argValueMessage = (name, value, reason = 'is invalid') =>
  `The ${name.includes('.') ? 'property' : 'argument'} '${name}' ${reason}. Received ${quoteShort(value, 128)}`;
export const ERR_INVALID_ARG_VALUE = define('ERR_INVALID_ARG_VALUE', TypeError, argValueMessage);
ERR_INVALID_ARG_VALUE.RangeError = define('ERR_INVALID_ARG_VALUE', RangeError, argValueMessage);

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, '_');

export const ERR_OUT_OF_RANGE = define('ERR_OUT_OF_RANGE', RangeError, (name, range, value) => {
  let shown = inspect(value);
  if (Number.isInteger(value) && Math.abs(value) > 2 ** 32) shown = grouped(String(value));
  else if (typeof value === 'bigint') shown = `${value > 2n ** 32n || value < -(2n ** 32n) ? grouped(String(value)) : value}n`;
  return `The value of "${name}" is out of range. It must be ${range}. Received ${shown}`;
});
export const ERR_MISSING_ARGS = define('ERR_MISSING_ARGS', TypeError, (...names) => {
  const quoted = names.map((name) => (Array.isArray(name) ? name.map((one) => `"${one}"`).join(' or ') : `"${name}"`));
  const all = quoted.length > 2 ? `${quoted.slice(0, -1).join(', ')}, and ${quoted.at(-1)}` : quoted.join(' and ');
  return `The ${all} argument${quoted.length > 1 ? 's' : ''} must be specified`;
});
export const ERR_INVALID_RETURN_VALUE = define('ERR_INVALID_RETURN_VALUE', TypeError, (input, name, value) => {
  const type = value?.constructor?.name ? `an instance of ${value.constructor.name}` : `type ${typeof value}`;
  return `Expected ${input} to be returned from the "${name}" function but got ${type}.`;
});
export const ERR_UNKNOWN_ENCODING = define('ERR_UNKNOWN_ENCODING', TypeError, (name) => `Unknown encoding: ${name}`);
export const ERR_BUFFER_OUT_OF_BOUNDS = define('ERR_BUFFER_OUT_OF_BOUNDS', RangeError, (name) =>
  name ? `"${name}" is outside of buffer bounds` : 'Attempt to access memory outside buffer bounds',
);
export const ERR_INVALID_THIS = define('ERR_INVALID_THIS', TypeError, (type) => `Value of "this" must be of type ${type}`);
export const ERR_STRING_TOO_LONG = define('ERR_STRING_TOO_LONG', Error, (length) =>
  `Cannot create a string longer than 0x${length.toString(16)} characters`,
);
export const ERR_SOCKET_BAD_PORT = define('ERR_SOCKET_BAD_PORT', RangeError, (name, port, allowZero = true) =>
  `${name} should be ${allowZero ? '>=' : '>'} 0 and < 65536.${received(port)}.`,
);
export const ERR_INVALID_CALLBACK = define('ERR_INVALID_CALLBACK', TypeError, (value) =>
  `Callback must be a function.${received(value)}`,
);
export const ERR_INVALID_STATE = define('ERR_INVALID_STATE', Error, (text) => `Invalid state: ${text}`);
export const ERR_ILLEGAL_CONSTRUCTOR = define('ERR_ILLEGAL_CONSTRUCTOR', TypeError, () => 'Illegal constructor');
export const ERR_UNHANDLED_ERROR = define('ERR_UNHANDLED_ERROR', Error, (text) =>
  text === undefined ? 'Unhandled error.' : `Unhandled error. (${text})`,
);
export const ERR_UNHANDLED_REJECTION = define(
  'ERR_UNHANDLED_REJECTION',
  Error,
  (reason) =>
    'This error originated either by throwing inside of an async function without a catch block, or by rejecting a ' +
    `promise which was not handled with .catch(). The promise rejected with the reason "${reason}".`,
);
export const ERR_ENCODING_NOT_SUPPORTED = define('ERR_ENCODING_NOT_SUPPORTED', RangeError, (name) =>
  `The "${name}" encoding is not supported`,
);
export const ERR_ENCODING_INVALID_ENCODED_DATA = define('ERR_ENCODING_INVALID_ENCODED_DATA', TypeError, (name) =>
  `The encoded data was not valid for encoding ${name}`,
);
export const ERR_CRYPTO_HASH_FINALIZED = define('ERR_CRYPTO_HASH_FINALIZED', Error, () => 'Digest already called');
export const ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH = define('ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', RangeError, () =>
  'Input buffers must have the same byte length',
);

export const hideStackFrames = (fn) => fn;
export const isErrorStackTraceLimitWritable = () => false;

export const codes = { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE };
