// `util.inspect` and `util.format` with the layout rules of node 22: depth 2, 80 columns, three innermost levels on one
// line, more than six array entries in columns.
//
// Ours because the source we otherwise draw on stands in for a missing native layer at run time (it walks prototypes to
// guess classes and rewrites `WeakMap` and `Object.setPrototypeOf` to see inside); here the natives answer.
import { native } from 'plimsoll:kernel/native';
import { programObject } from 'plimsoll:kernel/realm';
import * as types from 'plimsoll:internal/types';
import { strEscape, escapeKey, isIdentifier, getStringWidth } from 'plimsoll:internal/text';
import { KIND_ARRAY, KIND_ARRAY_EXTRAS, KIND_OBJECT, reduceToSingleString } from 'plimsoll:internal/inspect-layout';
import { formatError, isError } from 'plimsoll:internal/inspect-error';
import { getConstructorName, getPrefix, functionBase, boxedBase } from 'plimsoll:internal/inspect-names';
import { codes } from 'plimsoll:internal/errors';

export const customInspect = Symbol.for('nodejs.util.inspect.custom');
const mapIteratorClass = native.classId(new Map().keys());
const setIteratorClass = native.classId(new Set().keys());
const mapClass = native.classId(new Map());
const setClass = native.classId(new Set());

export const defaultOptions = Object.seal({
  __proto__: programObject,
  showHidden: false,
  depth: 2,
  colors: false,
  customInspect: true,
  showProxy: false,
  maxArrayLength: 100,
  maxStringLength: 10000,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
});

export const plain = (text) => text;

export function colored(text, kind) {
  const color = inspect.colors[inspect.styles[kind]];
  return color === undefined ? text : `\u001b[${color[0]}m${text}\u001b[${color[1]}m`;
}

/** One inspection: the options in force and where the walk stands. */
function makeContext() {
  return {
    budget: {},
    indentationLvl: 0,
    seen: [],
    currentDepth: 0,
    circular: undefined,
    userOptions: undefined,
    stylize: plain,
    ...defaultOptions,
  };
}

export function inspect(value, options, depth, colors) {
  const ctx = makeContext();
  if (depth !== undefined) ctx.depth = depth;
  if (colors !== undefined) ctx.colors = colors;
  if (typeof options === 'boolean') {
    ctx.showHidden = options;
  } else if (options) {
    for (const key of Object.keys(options)) {
      if (Object.hasOwn(defaultOptions, key) || key === 'stylize') ctx[key] = options[key];
      else if (ctx.userOptions === undefined) ctx.userOptions = options;
    }
  }
  if (ctx.colors) ctx.stylize = colored;
  if (ctx.maxArrayLength === null) ctx.maxArrayLength = Infinity;
  if (ctx.maxStringLength === null) ctx.maxStringLength = Infinity;
  return formatValue(ctx, value, 0);
}

inspect.custom = customInspect;

Object.defineProperty(inspect, 'defaultOptions', {
  get: () => defaultOptions,
  set(options) {
    if (options === null || typeof options !== 'object') throw new codes.ERR_INVALID_ARG_TYPE('options', 'Object', options);
    Object.assign(defaultOptions, options);
  },
});

const foreground = (code) => [code, 39];
const background = (code) => [code, 49];
const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
inspect.colors = Object.assign(Object.create(null), {
  reset: [0, 0],
  bold: [1, 22],
  dim: [2, 22],
  italic: [3, 23],
  underline: [4, 24],
  blink: [5, 25],
  inverse: [7, 27],
  hidden: [8, 28],
  strikethrough: [9, 29],
  doubleunderline: [21, 24],
});
names.forEach((name, i) => {
  const upper = name[0].toUpperCase() + name.slice(1);
  inspect.colors[name] = foreground(30 + i);
  inspect.colors[`bg${upper}`] = background(40 + i);
  if (i > 0) {
    inspect.colors[`${name}Bright`] = foreground(90 + i);
    inspect.colors[`bg${upper}Bright`] = background(100 + i);
  }
});
inspect.colors.gray = inspect.colors.grey = inspect.colors.blackBright = foreground(90);
inspect.colors.bgGray = inspect.colors.bgGrey = inspect.colors.bgBlackBright = background(100);
inspect.styles = Object.assign(Object.create(null), {
  special: 'cyan',
  number: 'yellow',
  bigint: 'yellow',
  boolean: 'yellow',
  undefined: 'grey',
  null: 'bold',
  string: 'green',
  symbol: 'green',
  date: 'magenta',
  regexp: 'red',
  module: 'underline',
});

/** The options handed to a custom inspect function: those in force, and the caller's unknown ones. */
function userOptions(ctx) {
  const options = { __proto__: programObject, stylize: ctx.stylize };
  for (const key of Object.keys(defaultOptions)) options[key] = ctx[key];
  return Object.assign(options, ctx.userOptions);
}

function formatValue(ctx, value, recurseTimes, typedArray) {
  if (typeof value !== 'object' && typeof value !== 'function') return formatPrimitive(ctx, value);
  if (value === null) return ctx.stylize('null', 'null');
  const context = value;
  const proxy = native.proxyDetails(value);
  if (proxy !== undefined) {
    if (proxy[0] === null) return ctx.stylize('<Revoked Proxy>', 'special');
    if (ctx.showProxy) return formatProxy(ctx, proxy, recurseTimes);
    value = proxy[0];
    let inner;
    while ((inner = native.proxyDetails(value)) !== undefined) {
      if (inner[0] === null) return ctx.stylize('<Revoked Proxy>', 'special');
      value = inner[0];
    }
  }
  if (ctx.customInspect) {
    const custom = value[customInspect];
    if (
      typeof custom === 'function' &&
      custom !== inspect &&
      Object.getOwnPropertyDescriptor(value, 'constructor')?.value?.prototype !== value
    ) {
      const depth = ctx.depth === null ? null : ctx.depth - recurseTimes;
      const result = Reflect.apply(custom, context, [depth, userOptions(ctx), inspect]);
      if (result !== context) {
        if (typeof result !== 'object') return `${result}`.replaceAll('\n', `\n${' '.repeat(ctx.indentationLvl)}`);
        return formatValue(ctx, result, recurseTimes);
      }
    }
  }
  if (ctx.seen.includes(value)) {
    ctx.circular ??= new Map();
    let index = ctx.circular.get(value);
    if (index === undefined) {
      index = ctx.circular.size + 1;
      ctx.circular.set(value, index);
    }
    return ctx.stylize(`[Circular *${index}]`, 'special');
  }
  return formatRaw(ctx, value, recurseTimes, typedArray);
}

function formatProxy(ctx, proxy, recurseTimes) {
  if (ctx.depth !== null && recurseTimes > ctx.depth) return ctx.stylize('Proxy [Array]', 'special');
  ctx.indentationLvl += 2;
  const parts = [formatValue(ctx, proxy[0], recurseTimes + 1), formatValue(ctx, proxy[1], recurseTimes + 1)];
  ctx.indentationLvl -= 2;
  return reduceToSingleString(ctx, parts, '', ['Proxy [', ']'], KIND_ARRAY_EXTRAS, recurseTimes + 1);
}

function getKeys(value, showHidden) {
  const symbols = Object.getOwnPropertySymbols(value);
  if (showHidden) return [...Object.getOwnPropertyNames(value), ...symbols];
  const keys = Object.keys(value);
  for (const symbol of symbols) {
    if (Object.prototype.propertyIsEnumerable.call(value, symbol)) keys.push(symbol);
  }
  return keys;
}

/** What an object prints as: `text` alone, or a base, braces, a formatter of its entries and its keys. */
function describe(ctx, value, constructor, tag, hasProtoProps, recurseTimes, typedArray) {
  const shape = { text: undefined, base: '', braces: ['{', '}'], entries: () => [], keys: undefined, kind: KIND_OBJECT };
  const empty = () => shape.keys.length === 0 && !hasProtoProps;
  if (Symbol.iterator in value || constructor === null) {
    if (Array.isArray(value)) {
      const prefix = constructor !== 'Array' || tag !== '' ? getPrefix(constructor, tag, 'Array', `(${value.length})`) : '';
      shape.keys = native.nonIndexKeys(value, !ctx.showHidden);
      shape.braces = [`${prefix}[`, ']'];
      if (value.length === 0 && empty()) shape.text = `${prefix}[]`;
      shape.kind = KIND_ARRAY_EXTRAS;
      shape.entries = formatArray;
      return shape;
    }
    if (types.isSet(value) || types.isMap(value)) {
      const name = types.isSet(value) ? 'Set' : 'Map';
      const size = name === 'Set' ? setSize.call(value) : mapSize.call(value);
      const prefix = getPrefix(constructor, tag, name, `(${size})`);
      shape.keys = getKeys(value, ctx.showHidden);
      shape.entries = name === 'Set' ? formatSet : formatMap;
      if (size === 0 && empty()) shape.text = `${prefix}{}`;
      shape.braces = [`${prefix}{`, '}'];
      return shape;
    }
    if (types.isTypedArray(value)) {
      shape.keys = native.nonIndexKeys(value, !ctx.showHidden);
      const fallback = constructor === null ? typedArrayTag.call(value) : '';
      const size = typedArrayLength.call(value);
      const prefix = getPrefix(constructor, tag, fallback, `(${size})`);
      shape.braces = [`${prefix}[`, ']'];
      if (size === 0 && shape.keys.length === 0 && !ctx.showHidden) shape.text = `${prefix}[]`;
      shape.kind = KIND_ARRAY_EXTRAS;
      shape.entries = formatTypedArray;
      return shape;
    }
    if (types.isMapIterator(value) || types.isSetIterator(value)) {
      shape.keys = getKeys(value, ctx.showHidden);
      const name = types.isMapIterator(value) ? 'Map' : 'Set';
      shape.braces = [`[${tag !== `${name} Iterator` && tag !== '' ? `${tag}] [` : ''}${name} Iterator] {`, '}'];
      shape.entries = (c, v, r) => formatIterator(c, v, r, shape.braces);
      return shape;
    }
  }
  shape.keys = getKeys(value, ctx.showHidden);
  if (typeof value === 'function') {
    shape.base = functionBase(ctx, value, constructor, tag);
    if (empty()) shape.text = ctx.stylize(shape.base, 'special');
  } else if (types.isArgumentsObject(value)) {
    shape.braces[0] = '[Arguments] {';
    if (empty()) shape.text = '[Arguments] {}';
  } else if (types.isRegExp(value)) {
    shape.base = RegExp.prototype.toString.call(constructor !== null ? value : new RegExp(value));
    const prefix = getPrefix(constructor, tag, 'RegExp');
    if (prefix !== 'RegExp ') shape.base = `${prefix}${shape.base}`;
    if (empty() || (ctx.depth !== null && recurseTimes > ctx.depth)) shape.text = ctx.stylize(shape.base, 'regexp');
  } else if (types.isDate(value)) {
    const time = Date.prototype.getTime.call(value);
    shape.base = Number.isNaN(time) ? Date.prototype.toString.call(value) : Date.prototype.toISOString.call(value);
    const prefix = getPrefix(constructor, tag, 'Date');
    if (prefix !== 'Date ') shape.base = `${prefix}${shape.base}`;
    if (empty()) shape.text = ctx.stylize(shape.base, 'date');
  } else if (isError(value)) {
    shape.base = formatError(ctx, value, constructor, tag, shape.keys);
    if (empty()) shape.text = shape.base;
  } else if (types.isAnyArrayBuffer(value)) {
    const prefix = getPrefix(constructor, tag, types.isArrayBuffer(value) ? 'ArrayBuffer' : 'SharedArrayBuffer');
    if (typedArray === undefined) shape.entries = formatArrayBuffer;
    else if (empty()) shape.text = `${prefix}{ byteLength: ${formatNumber(ctx, value.byteLength)} }`;
    shape.braces[0] = `${prefix}{`;
    shape.keys.unshift('byteLength');
  } else if (types.isDataView(value)) {
    shape.braces[0] = `${getPrefix(constructor, tag, 'DataView')}{`;
    shape.keys.unshift('byteLength', 'byteOffset', 'buffer');
  } else if (types.isPromise(value)) {
    shape.braces[0] = `${getPrefix(constructor, tag, 'Promise')}{`;
    shape.entries = formatPromise;
  } else if (types.isWeakSet(value) || types.isWeakMap(value)) {
    shape.braces[0] = `${getPrefix(constructor, tag, types.isWeakSet(value) ? 'WeakSet' : 'WeakMap')}{`;
    shape.entries = (c) => [c.stylize('<items unknown>', 'special')];
  } else if (types.isBoxedPrimitive(value)) {
    shape.base = boxedBase(ctx, value, constructor, tag, shape.keys, formatPrimitive);
    if (empty()) shape.text = shape.base;
  } else if (constructor === 'Object') {
    if (tag !== '') shape.braces[0] = `${getPrefix(constructor, tag, 'Object')}{`;
    if (empty()) shape.text = `${shape.braces[0]}}`;
  } else {
    if (empty()) shape.text = `${getPrefix(constructor, tag, 'Object')}{}`;
    shape.braces[0] = `${getPrefix(constructor, tag, 'Object')}{`;
  }
  return shape;
}

const setSize = Object.getOwnPropertyDescriptor(Set.prototype, 'size').get;
const mapSize = Object.getOwnPropertyDescriptor(Map.prototype, 'size').get;
const setForEach = Set.prototype.forEach;
const mapForEach = Map.prototype.forEach;
const isDetached = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, 'detached').get;
const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype);
const typedArrayLength = Object.getOwnPropertyDescriptor(typedArrayPrototype, 'length').get;
const typedArrayTag = Object.getOwnPropertyDescriptor(typedArrayPrototype, Symbol.toStringTag).get;

/** True if the class name says the tag already, as a word of its own: `DefaultMap` says `Map`, `Mapper` does not. */
function namesTag(constructor, tag) {
  const at = constructor.indexOf(tag);
  return at !== -1 && constructor !== tag && !/[a-z]/.test(constructor[at + tag.length] ?? '');
}

function formatRaw(ctx, value, recurseTimes, typedArray) {
  let protoProps;
  if (ctx.showHidden && (ctx.depth === null || recurseTimes <= ctx.depth)) protoProps = [];
  const constructor = getConstructorName(value, ctx, recurseTimes, protoProps, formatProperty, inspect);
  if (protoProps !== undefined && protoProps.length === 0) protoProps = undefined;
  let tag = value[Symbol.toStringTag];
  if (typeof tag !== 'string') {
    tag = '';
  } else if (tag !== '') {
    const shown = ctx.showHidden
      ? Object.hasOwn(value, Symbol.toStringTag)
      : Object.prototype.propertyIsEnumerable.call(value, Symbol.toStringTag);
    if (shown || (constructor !== null && namesTag(constructor, tag))) tag = '';
  }
  const shape = describe(ctx, value, constructor, tag, protoProps !== undefined, recurseTimes, typedArray);
  if (shape.text !== undefined) return shape.text;
  if (ctx.depth !== null && recurseTimes > ctx.depth) {
    const fallback = Array.isArray(value) ? 'Array' : 'Object';
    const name = getPrefix(constructor, tag, fallback).slice(0, -1);
    return ctx.stylize(constructor === null ? name : `[${name}]`, 'special');
  }
  recurseTimes += 1;
  ctx.seen.push(value);
  ctx.currentDepth = recurseTimes;
  const { indentationLvl } = ctx;
  let output;
  try {
    output = shape.entries(ctx, value, recurseTimes);
    for (const key of shape.keys) output.push(formatProperty(ctx, value, recurseTimes, key, shape.kind));
    if (protoProps !== undefined) output.push(...protoProps);
  } catch (error) {
    if (!(error instanceof RangeError) || error.message !== 'Maximum call stack size exceeded') throw error;
    ctx.seen.pop();
    ctx.indentationLvl = indentationLvl;
    const name = getPrefix(constructor, tag, 'Object').slice(0, -1);
    return ctx.stylize(
      `[${name}: Inspection interrupted prematurely. Maximum call stack size exceeded.]`,
      'special',
    );
  }
  let { base } = shape;
  const { braces } = shape;
  const index = ctx.circular?.get(value);
  if (index !== undefined) {
    const reference = ctx.stylize(`<ref *${index}>`, 'special');
    if (ctx.compact === true) braces[0] = `${reference} ${braces[0]}`;
    else base = base === '' ? reference : `${reference} ${base}`;
  }
  ctx.seen.pop();
  if (ctx.sorted) {
    const comparator = ctx.sorted === true ? undefined : ctx.sorted;
    if (shape.kind === KIND_OBJECT) {
      output.sort(comparator);
    } else if (shape.keys.length > 1) {
      const sorted = output.slice(output.length - shape.keys.length).sort(comparator);
      output.splice(output.length - shape.keys.length, shape.keys.length, ...sorted);
    }
  }
  const text = reduceToSingleString(ctx, output, base, braces, shape.kind, recurseTimes, value);
  const total = (ctx.budget[ctx.indentationLvl] || 0) + text.length;
  ctx.budget[ctx.indentationLvl] = total;
  if (total > 2 ** 27) ctx.depth = -1;
  return text;
}

function formatPrimitive(ctx, value) {
  switch (typeof value) {
    case 'string': {
      let trailer = '';
      if (value.length > ctx.maxStringLength) {
        trailer = moreOf(value.length - ctx.maxStringLength, 'character');
        value = value.slice(0, ctx.maxStringLength);
      }
      if (ctx.compact !== true && value.length > 16 && value.length > ctx.breakLength - ctx.indentationLvl - 4) {
        return (
          value
            .split(/(?<=\n)/)
            .map((line) => ctx.stylize(strEscape(line), 'string'))
            .join(` +\n${' '.repeat(ctx.indentationLvl + 2)}`) + trailer
        );
      }
      return ctx.stylize(strEscape(value), 'string') + trailer;
    }
    case 'number':
      return formatNumber(ctx, value);
    case 'bigint':
      return formatBigInt(ctx, value);
    case 'symbol':
      return ctx.stylize(Symbol.prototype.toString.call(value), 'symbol');
    default:
      return ctx.stylize(`${value}`, typeof value);
  }
}

const separated = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, '_');

function formatNumber(ctx, value) {
  if (Object.is(value, -0) && !ctx.numericSeparator) return ctx.stylize('-0', 'number');
  const text = `${value}`;
  const parts = ctx.numericSeparator && /^(-?)(\d+)(?:\.(\d+))?$/.exec(text);
  if (!parts) return ctx.stylize(text, 'number');
  const fraction = parts[3] === undefined ? '' : `.${parts[3].replace(/\d{3}(?=\d)/g, '$&_')}`;
  return ctx.stylize(`${parts[1]}${separated(parts[2])}${fraction}`, 'number');
}

function formatBigInt(ctx, value) {
  const text = `${value}`;
  return ctx.stylize(`${ctx.numericSeparator ? separated(text) : text}n`, 'bigint');
}

const moreOf = (count, noun) => `... ${count} more ${noun}${count > 1 ? 's' : ''}`;

const shownCount = (ctx, length) => Math.min(Math.max(0, ctx.maxArrayLength), length);

function formatArray(ctx, value, recurseTimes) {
  const shown = shownCount(ctx, value.length);
  const output = [];
  for (let i = 0; i < shown; i++) {
    if (!Object.hasOwn(value, i)) return formatSparse(ctx, value, recurseTimes, shown, output, i);
    output.push(formatProperty(ctx, value, recurseTimes, i, KIND_ARRAY));
  }
  if (value.length > shown) output.push(moreOf(value.length - shown, 'item'));
  return output;
}

/** An array with holes: each run of them is one entry, and counts as one. */
function formatSparse(ctx, value, recurseTimes, shown, output, from) {
  const keys = Object.keys(value);
  const holes = (count) => ctx.stylize(`<${count} empty item${count > 1 ? 's' : ''}>`, 'undefined');
  let index = from;
  for (let i = from; i < keys.length && output.length < shown; i++) {
    const key = keys[i];
    const at = +key;
    if (`${index}` !== key) {
      if (!/^(0|[1-9][0-9]*)$/.test(key) || at > 2 ** 32 - 2) break;
      output.push(holes(at - index));
      index = at;
      if (output.length === shown) break;
    }
    output.push(formatProperty(ctx, value, recurseTimes, key, KIND_ARRAY));
    index++;
  }
  const remaining = value.length - index;
  if (remaining > 0) output.push(output.length === shown ? moreOf(remaining, 'item') : holes(remaining));
  return output;
}

function formatTypedArray(ctx, value, recurseTimes) {
  const length = typedArrayLength.call(value);
  const shown = shownCount(ctx, length);
  const output = [];
  for (let i = 0; i < shown; i++) output.push(formatPrimitive(ctx, value[i]));
  if (length > shown) output.push(moreOf(length - shown, 'item'));
  if (ctx.showHidden) {
    ctx.indentationLvl += 2;
    for (const key of ['BYTES_PER_ELEMENT', 'length', 'byteLength', 'byteOffset', 'buffer']) {
      output.push(`[${key}]: ${formatValue(ctx, value[key], recurseTimes, true)}`);
    }
    ctx.indentationLvl -= 2;
  }
  return output;
}

function formatArrayBuffer(ctx, value) {
  if (types.isArrayBuffer(value) && isDetached.call(value)) return [ctx.stylize('(detached)', 'special')];
  const bytes = new Uint8Array(value);
  const shown = shownCount(ctx, bytes.length);
  const pairs = [];
  for (let i = 0; i < shown; i++) pairs.push(bytes[i].toString(16).padStart(2, '0'));
  let text = pairs.join(' ');
  if (bytes.length > shown) text += ` ${moreOf(bytes.length - shown, 'byte')}`;
  return [`${ctx.stylize('[Uint8Contents]', 'special')}: <${text}>`];
}

function formatSet(ctx, value, recurseTimes) {
  const output = [];
  const size = setSize.call(value);
  const shown = shownCount(ctx, size);
  ctx.indentationLvl += 2;
  setForEach.call(value, (entry) => {
    if (output.length < shown) output.push(formatValue(ctx, entry, recurseTimes));
  });
  if (size > shown) output.push(moreOf(size - shown, 'item'));
  ctx.indentationLvl -= 2;
  return output;
}

function formatMap(ctx, value, recurseTimes) {
  const output = [];
  const size = mapSize.call(value);
  const shown = shownCount(ctx, size);
  ctx.indentationLvl += 2;
  mapForEach.call(value, (entry, key) => {
    if (output.length < shown) {
      output.push(`${formatValue(ctx, key, recurseTimes)} => ${formatValue(ctx, entry, recurseTimes)}`);
    }
  });
  if (size > shown) output.push(moreOf(size - shown, 'item'));
  ctx.indentationLvl -= 2;
  return output;
}

function formatIterator(ctx, value, recurseTimes, braces) {
  const isMap = types.isMapIterator(value);
  const { 0: flat, 1: pairs } = native.iteratorEntries(
    value,
    isMap ? mapIteratorClass : setIteratorClass,
    isMap ? mapClass : setClass,
  );
  if (pairs) braces[0] = braces[0].replace(/ Iterator\] \{$/, ' Entries] {');
  const step = pairs ? 2 : 1;
  const count = flat.length / step;
  const shown = shownCount(ctx, count);
  const output = [];
  ctx.indentationLvl += 2;
  for (let i = 0; i < shown; i++) {
    if (pairs) {
      const both = [formatValue(ctx, flat[2 * i], recurseTimes), formatValue(ctx, flat[2 * i + (isMap ? 1 : 0)], recurseTimes)];
      output.push(reduceToSingleString(ctx, both, '', ['[', ']'], KIND_ARRAY_EXTRAS, recurseTimes));
    } else {
      output.push(formatValue(ctx, flat[i], recurseTimes));
    }
  }
  ctx.indentationLvl -= 2;
  if (count > shown) output.push(moreOf(count - shown, 'item'));
  return output;
}

function formatPromise(ctx, value, recurseTimes) {
  const { 0: state, 1: result } = native.promiseDetails(value);
  if (state === 0) return [ctx.stylize('<pending>', 'special')];
  ctx.indentationLvl += 2;
  const text = formatValue(ctx, result, recurseTimes);
  ctx.indentationLvl -= 2;
  return [state === 2 ? `${ctx.stylize('<rejected>', 'special')} ${text}` : text];
}

function formatGetter(ctx, desc, original, recurseTimes) {
  const label = desc.set !== undefined ? 'Getter/Setter' : 'Getter';
  const special = (text) => ctx.stylize(text, 'special');
  const wanted =
    ctx.getters === true ||
    (ctx.getters === 'get' && desc.set === undefined) ||
    (ctx.getters === 'set' && desc.set !== undefined);
  if (!wanted) return special(`[${label}]`);
  try {
    const result = Reflect.apply(desc.get, original, []);
    ctx.indentationLvl += 2;
    let text;
    if (result !== null && typeof result === 'object') text = `${special(`[${label}]`)} ${formatValue(ctx, result, recurseTimes)}`;
    else text = `${special(`[${label}:`)} ${result === null ? ctx.stylize('null', 'null') : formatPrimitive(ctx, result)}${special(']')}`;
    ctx.indentationLvl -= 2;
    return text;
  } catch (error) {
    return `${special(`[${label}:`)} <Inspection threw (${error.message})>${special(']')}`;
  }
}

function formatProperty(ctx, value, recurseTimes, key, kind, desc, original = value) {
  let text;
  let gap = ' ';
  desc ??= Object.getOwnPropertyDescriptor(value, key) || { value: value[key], enumerable: false };
  if (desc.value !== undefined) {
    const shift = ctx.compact !== true || kind !== KIND_OBJECT ? 2 : 3;
    ctx.indentationLvl += shift;
    text = formatValue(ctx, desc.value, recurseTimes);
    if (shift === 3 && ctx.breakLength < getStringWidth(text, ctx.colors)) gap = `\n${' '.repeat(ctx.indentationLvl)}`;
    ctx.indentationLvl -= shift;
  } else if (desc.get !== undefined) {
    text = formatGetter(ctx, desc, original, recurseTimes);
  } else if (desc.set !== undefined) {
    text = ctx.stylize('[Setter]', 'special');
  } else {
    text = ctx.stylize('undefined', 'undefined');
  }
  if (kind === KIND_ARRAY) return text;
  let name;
  if (typeof key === 'symbol') name = `[${ctx.stylize(escapeKey(Symbol.prototype.toString.call(key)), 'symbol')}]`;
  else if (key === '__proto__') name = "['__proto__']";
  else if (desc.enumerable === false) name = `[${escapeKey(key)}]`;
  else if (isIdentifier(key)) name = ctx.stylize(key, 'name');
  else name = ctx.stylize(strEscape(key), 'string');
  return `${name}:${gap}${text}`;
}

export { formatNumber, formatBigInt };
