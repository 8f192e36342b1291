// `structuredClone`: the structured clone algorithm with transfer of array buffers.
import { ERR_MISSING_ARGS, codes } from 'plimsoll:internal/errors';
import { DOMException } from 'plimsoll:internal/event-target';
import * as types from 'plimsoll:internal/types';

const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

function refuse(text) {
  throw new DOMException(`${text} could not be cloned.`, 'DataCloneError');
}

function describe(value) {
  if (typeof value === 'symbol') return String(value);
  if (typeof value === 'function') return Function.prototype.toString.call(value);
  return `#<${value.constructor?.name || 'Object'}>`;
}

/** An error keeps its built-in class, stack, message and cause; nothing else of it crosses. */
function copyError(source, remember, walk) {
  const name = `${source.name}`;
  const copy = remember(new (Object.hasOwn(ERRORS, name) ? ERRORS[name] : Error)());
  const hide = (key, value) =>
    Object.defineProperty(copy, key, { value, writable: true, configurable: true, enumerable: false });
  hide('stack', `${source.stack}`);
  if (Object.hasOwn(source, 'message')) hide('message', `${source.message}`);
  if (Object.hasOwn(source, 'cause')) hide('cause', walk(source.cause));
  return copy;
}

function copyOf(value, seen, transferred) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')) return value;
  if (typeof value !== 'object') return refuse(describe(value));
  if (seen.has(value)) return seen.get(value);
  const walk = (inner) => copyOf(inner, seen, transferred);
  const remember = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  if (types.isProxy(value)) return refuse('#<Object>');
  if (types.isDate(value)) return remember(new Date(Date.prototype.getTime.call(value)));
  if (types.isRegExp(value)) return remember(new RegExp(value.source, value.flags));
  if (types.isBoxedPrimitive(value)) {
    if (types.isSymbolObject(value)) return refuse('Object(Symbol())');
    return remember(Object(value.valueOf()));
  }
  if (types.isArrayBuffer(value)) return remember(transferred.get(value) ?? value.slice(0));
  if (types.isSharedArrayBuffer(value)) return remember(value);
  if (ArrayBuffer.isView(value)) {
    const buffer = walk(value.buffer);
    if (types.isDataView(value)) return remember(new DataView(buffer, value.byteOffset, value.byteLength));
    const tag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
    return remember(new globalThis[tag.call(value)](buffer, value.byteOffset, value.length));
  }
  if (types.isMap(value)) {
    const copy = remember(new Map());
    for (const [key, inner] of [...Map.prototype.entries.call(value)]) copy.set(walk(key), walk(inner));
    return copy;
  }
  if (types.isSet(value)) {
    const copy = remember(new Set());
    for (const inner of [...Set.prototype.values.call(value)]) copy.add(walk(inner));
    return copy;
  }
  if (types.isNativeError(value)) return copyError(value, remember, walk);
  if (
    types.isPromise(value) || types.isWeakMap(value) || types.isWeakSet(value) || types.isGeneratorObject(value) ||
    types.isMapIterator(value) || types.isSetIterator(value) || value instanceof WeakRef
  ) {
    return refuse(describe(value));
  }
  const copy = remember(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    Object.defineProperty(copy, key, { value: walk(value[key]), writable: true, enumerable: true, configurable: true });
  }
  return copy;
}

export function structuredClone(value, options = undefined) {
  if (arguments.length === 0) throw new ERR_MISSING_ARGS('value');
  if (options != null && typeof options !== 'object') throw new codes.ERR_INVALID_ARG_TYPE('options', 'Object', options);
  const transferred = new Map();
  const transfer = options?.transfer === undefined ? [] : [...options.transfer];
  for (const item of transfer) {
    if (!types.isArrayBuffer(item)) throw new DOMException('Value not transferable', 'DataCloneError');
    if (transferred.has(item)) throw new DOMException('ArrayBuffer occurs in the transfer list more than once', 'DataCloneError');
    transferred.set(item, item.slice(0));
  }
  const copy = copyOf(value, new Map(), transferred);
  for (const item of transfer) item.transfer();
  return copy;
}
