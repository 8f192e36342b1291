// URLSearchParams: a list of pairs, in step with the URL it belongs to.
import { native } from 'plimsoll:internal/native';
import { codes, codedError, ERR_INVALID_THIS, ERR_MISSING_ARGS } from 'plimsoll:internal/errors';
import { customInspect, inspect } from 'plimsoll:internal/inspect';
import { markClasses } from 'plimsoll:internal/inspect-names';
import { percentDecode } from 'plimsoll:internal/url-parse';

const text = (value) => `${value}`.toWellFormed();

export function parseQuery(query) {
  const pairs = [];
  for (const part of query.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const decode = (piece) => percentDecode(piece.replaceAll('+', ' '));
    pairs.push(equals === -1 ? [decode(part), ''] : [decode(part.slice(0, equals)), decode(part.slice(equals + 1))]);
  }
  return pairs;
}

function encode(piece) {
  if (/^[A-Za-z0-9*._-]*$/.test(piece)) return piece;
  let out = '';
  for (const byte of native.utf8Encode(piece)) {
    const character = String.fromCharCode(byte);
    if (byte === 0x20) out += '+';
    else if (/[A-Za-z0-9*._-]/.test(character)) out += character;
    else out += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return out;
}

function pairsOf(init) {
  if (init === undefined || init === null) return [];
  if (typeof init === 'object' || typeof init === 'function') {
    const iterate = init[Symbol.iterator];
    if (iterate === undefined || iterate === null) {
      return Reflect.ownKeys(init)
        .filter((key) => Object.prototype.propertyIsEnumerable.call(init, key))
        .map((key) => [text(key), text(init[key])]);
    }
    if (typeof iterate !== 'function') throw codedError(TypeError, 'ERR_ARG_NOT_ITERABLE', 'Query pairs must be iterable');
    return Array.from(init, (pair) => {
      const isTuple = pair !== null && typeof pair === 'object' && typeof pair[Symbol.iterator] === 'function';
      const both = isTuple ? [...pair] : [];
      if (both.length !== 2) {
        throw codedError(TypeError, 'ERR_INVALID_TUPLE', 'Each query pair must be an iterable [name, value] tuple');
      }
      return both.map(text);
    });
  }
  const query = text(init);
  return parseQuery(query.startsWith('?') ? query.slice(1) : query);
}

const byCodeUnit = (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0);

const ITERATE = Symbol('pairs');

const iteratorPrototype = Object.create(Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())), {
  next: {
    value() {
      const state = this?.[ITERATE];
      if (state === undefined) throw new ERR_INVALID_THIS('URLSearchParamsIterator');
      const pairs = state.pairs();
      if (state.at >= pairs.length) return { value: undefined, done: true };
      return { value: state.pick(pairs[state.at++]), done: false };
    },
    writable: true,
    enumerable: true,
    configurable: true,
  },
  [Symbol.toStringTag]: { value: 'URLSearchParams Iterator', configurable: true },
  [customInspect]: {
    value(depth, options) {
      if (depth < 0) return '[Object]';
      const { pairs, at, pick } = this[ITERATE];
      const rest = pairs().slice(at).map(pick);
      return `URLSearchParams Iterator ${inspect(rest, options).replace(/^\[/, '{').replace(/\]$/, '}')}`;
    },
  },
});

export class URLSearchParams {
  #pairs;
  #changed;

  /** `changed`: called after each change; only a URL passes it. */
  constructor(init = undefined, changed = undefined) {
    this.#pairs = pairsOf(init);
    this.#changed = typeof changed === 'function' ? changed : undefined;
  }

  /** Replaces the pairs without telling the URL; for the URL itself. */
  static reset(params, query) {
    params.#pairs = parseQuery(query);
  }

  #update(pairs) {
    this.#pairs = pairs;
    this.#changed?.(this.toString());
  }

  #iterator(pick) {
    return Object.create(iteratorPrototype, { [ITERATE]: { value: { pairs: () => this.#pairs, at: 0, pick } } });
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    if (arguments.length < 2) throw new ERR_MISSING_ARGS('name', 'value');
    this.#update([...this.#pairs, [text(name), text(value)]]);
  }

  delete(name, value = undefined) {
    if (arguments.length < 1) throw new ERR_MISSING_ARGS('name');
    name = text(name);
    const same = ([key, one]) => key === name && (value === undefined || one === text(value));
    this.#update(this.#pairs.filter((pair) => !same(pair)));
  }

  get(name) {
    if (arguments.length < 1) throw new ERR_MISSING_ARGS('name');
    name = text(name);
    return this.#pairs.find(([key]) => key === name)?.[1] ?? null;
  }

  getAll(name) {
    if (arguments.length < 1) throw new ERR_MISSING_ARGS('name');
    name = text(name);
    return this.#pairs.filter(([key]) => key === name).map(([, value]) => value);
  }

  has(name, value = undefined) {
    if (arguments.length < 1) throw new ERR_MISSING_ARGS('name');
    name = text(name);
    return this.#pairs.some(([key, one]) => key === name && (value === undefined || one === text(value)));
  }

  set(name, value) {
    if (arguments.length < 2) throw new ERR_MISSING_ARGS('name', 'value');
    name = text(name);
    const at = this.#pairs.findIndex(([key]) => key === name);
    const pair = [name, text(value)];
    if (at === -1) this.#update([...this.#pairs, pair]);
    else this.#update([...this.#pairs.slice(0, at), pair, ...this.#pairs.slice(at + 1).filter(([key]) => key !== name)]);
  }

  sort() {
    this.#update(this.#pairs.toSorted(byCodeUnit));
  }

  forEach(callback, thisArg = undefined) {
    if (typeof callback !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('callback', 'Function', callback);
    for (const [key, value] of this) callback.call(thisArg, value, key, this);
  }

  entries() {
    return this.#iterator((pair) => [...pair]);
  }

  keys() {
    return this.#iterator(([key]) => key);
  }

  values() {
    return this.#iterator(([, value]) => value);
  }

  toString() {
    return this.#pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
  }

  [customInspect](depth, options) {
    if (depth < 0) return '[Object]';
    if (this.#pairs.length === 0) return 'URLSearchParams {}';
    const shown = this.#pairs.map(([key, value]) => `${inspect(key, options)} => ${inspect(value, options)}`);
    const length = shown.reduce((sum, one) => sum + one.length + 2, -2);
    if (length > (options.breakLength ?? 80)) return `URLSearchParams {\n  ${shown.join(',\n  ')} }`;
    return `URLSearchParams { ${shown.join(', ')} }`;
  }
}
Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, {
  value: URLSearchParams.prototype.entries,
  writable: true,
  configurable: true,
});
Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: 'URLSearchParams', configurable: true });
for (const name of ['append', 'delete', 'get', 'getAll', 'has', 'set', 'sort', 'forEach', 'entries', 'keys', 'values', 'toString', 'size']) {
  Object.defineProperty(URLSearchParams.prototype, name, { enumerable: true });
}
export const resetParams = URLSearchParams.reset;
delete URLSearchParams.reset;
markClasses(URLSearchParams);
