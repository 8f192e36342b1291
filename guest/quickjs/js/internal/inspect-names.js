// How printed values are named: constructors, prefixes, functions and classes, boxed primitives.
import { programClasses } from 'plimsoll:kernel/realm';
import * as types from 'plimsoll:internal/types';

const builtIns = new Set(Object.getOwnPropertyNames(globalThis).filter((name) => /^[A-Z][a-zA-Z0-9]+$/.test(name)));

export const isBuiltInName = (name) => builtIns.has(name);

const hasInstance = Function.prototype[Symbol.hasInstance];

function isInstance(value, constructor) {
  try {
    return value instanceof constructor;
  } catch {
    return false;
  }
}

/** The nearest constructor's name on the prototype chain; null without a prototype. Collects hidden prototype properties. */
export function getConstructorName(value, ctx, recurseTimes, protoProps, formatProperty, inspect) {
  let first;
  for (let object = value; object; ) {
    const known = programClasses.get(object);
    if (known !== undefined && Reflect.apply(hasInstance, known.constructor, [value])) {
      if (protoProps !== undefined && first !== object) {
        addPrototypeProperties(ctx, value, first || value, recurseTimes, protoProps, formatProperty);
      }
      return known.name;
    }
    const descriptor = Object.getOwnPropertyDescriptor(object, 'constructor');
    const candidate = descriptor?.value;
    if (typeof candidate === 'function' && candidate.name !== '' && isInstance(value, candidate)) {
      if (protoProps !== undefined && (first !== object || !builtIns.has(candidate.name))) {
        addPrototypeProperties(ctx, value, first || value, recurseTimes, protoProps, formatProperty);
      }
      return String(candidate.name);
    }
    object = Object.getPrototypeOf(object);
    if (first === undefined) first = object;
  }
  if (first === null) return null;
  const fallback = Array.isArray(value) ? 'Array' : typeof value === 'function' ? 'Function' : 'Object';
  if (ctx.depth !== null && recurseTimes > ctx.depth) return `${fallback} <Complex prototype>`;
  const above = getConstructorName(first, ctx, recurseTimes + 1, protoProps, formatProperty, inspect);
  if (above === null) {
    return `${fallback} <${inspect(first, { ...ctx, customInspect: false, depth: -1 })}>`;
  }
  return `${fallback} <${above}>`;
}

/** With `showHidden`: data properties and accessors of up to three prototypes that are not built in. */
function addPrototypeProperties(ctx, main, object, recurseTimes, output, formatProperty) {
  const seen = new Set();
  for (let layer = 0; layer < 3; layer++) {
    if (layer !== 0 || main === object) {
      object = Object.getPrototypeOf(object);
      if (object === null) return;
      const constructor = Object.getOwnPropertyDescriptor(object, 'constructor')?.value;
      if (typeof constructor === 'function' && builtIns.has(constructor.name)) return;
    }
    const keys = Reflect.ownKeys(object);
    ctx.seen.push(main);
    for (const key of keys) {
      if (key === 'constructor' || Object.hasOwn(main, key) || seen.has(key)) continue;
      const descriptor = Object.getOwnPropertyDescriptor(object, key);
      if (typeof descriptor.value === 'function') continue;
      const text = formatProperty(ctx, object, recurseTimes, key, 0, descriptor, main);
      output.push(ctx.colors ? `\u001b[2m${text}\u001b[22m` : text);
    }
    ctx.seen.pop();
    for (const key of keys) seen.add(key);
  }
}

/** `Name(size) [tag] `, or the fallback in brackets for an object without prototype. */
export function getPrefix(constructor, tag, fallback, size = '') {
  if (constructor === null) {
    const unlike = tag !== '' && fallback !== tag ? `[${tag}] ` : '';
    return `[${fallback}${size}: null prototype] ${unlike}`;
  }
  if (tag !== '' && constructor !== tag) return `${constructor}${size} [${tag}] `;
  return `${constructor}${size} `;
}

const imageClasses = new WeakSet();

/** Classes of the image carry no source text, so they say themselves that they are classes. */
export function markClasses(...classes) {
  for (const item of classes) imageClasses.add(item);
}

function isClass(value) {
  if (imageClasses.has(value)) return true;
  const source = Function.prototype.toString.call(value);
  return source.startsWith('class') && source.endsWith('}');
}

function classBase(value, constructor, tag) {
  const name = (Object.hasOwn(value, 'name') && value.name) || '(anonymous)';
  let base = `class ${name}`;
  if (constructor !== 'Function' && constructor !== null) base += ` [${constructor}]`;
  if (tag !== '' && constructor !== tag) base += ` [${tag}]`;
  if (constructor === null) {
    base += ' extends [null prototype]';
  } else {
    const parent = Object.getPrototypeOf(value)?.name;
    if (parent) base += ` extends ${parent}`;
  }
  return `[${base}]`;
}

/** `[Function: name]`, `[class A extends B]` and their kin. */
export function functionBase(ctx, value, constructor, tag) {
  if (isClass(value)) return classBase(value, constructor, tag);
  const type = `${types.isAsyncFunction(value) ? 'Async' : ''}${types.isGeneratorFunction(value) ? 'Generator' : ''}Function`;
  let base = `[${type}`;
  if (constructor === null) base += ' (null prototype)';
  base += value.name === '' ? ' (anonymous)' : `: ${String(value.name)}`;
  base += ']';
  if (constructor !== type && constructor !== null) base += ` ${constructor}`;
  if (tag !== '' && constructor !== tag) base += ` [${tag}]`;
  return base;
}

const boxed = [
  ['Number', types.isNumberObject, Number.prototype.valueOf],
  ['String', types.isStringObject, String.prototype.valueOf],
  ['Boolean', types.isBooleanObject, Boolean.prototype.valueOf],
  ['BigInt', types.isBigIntObject, BigInt.prototype.valueOf],
  ['Symbol', types.isSymbolObject, Symbol.prototype.valueOf],
];

/** `[Number: 3]`; the index keys of a boxed string go, for the text shows them. */
export function boxedBase(ctx, value, constructor, tag, keys, formatPrimitive) {
  const [type, , unbox] = boxed.find(([, is]) => is(value));
  const primitive = unbox.call(value);
  if (type === 'String') keys.splice(0, primitive.length);
  let base = `[${type}`;
  if (type !== constructor) base += constructor === null ? ' (null prototype)' : ` (${constructor})`;
  base += `: ${formatPrimitive({ ...ctx, stylize: (text) => text }, primitive)}]`;
  if (tag !== '' && tag !== constructor) base += ` [${tag}]`;
  return keys.length !== 0 ? base : ctx.stylize(base, type.toLowerCase());
}
