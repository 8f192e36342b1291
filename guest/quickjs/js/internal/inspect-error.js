// How an error prints: its stack, the head of it corrected to the class and the name it has now.
import { isNativeError } from 'plimsoll:internal/types';
import { getPrefix } from 'plimsoll:internal/inspect-names';

const errorToString = Error.prototype.toString;

export const isError = (value) => isNativeError(value) || value instanceof Error;

function stackOf(error) {
  const stack = error.stack;
  if (stack) return String(stack);
  return Reflect.apply(errorToString, error, []);
}

/** The head of a stack is written when the error is made; classes that set `name` later, or never, show here. */
function improveStack(stack, constructor, name, tag) {
  let length = name.length;
  const headIsName =
    name.endsWith('Error') &&
    stack.startsWith(name) &&
    (stack.length === length || stack[length] === ':' || stack[length] === '\n');
  if (constructor !== null && !headIsName) return stack;
  let fallback = 'Error';
  if (constructor === null) {
    const start = /^([A-Z][a-z_ A-Z0-9[\]()-]+)(?::|\n\s+at)/.exec(stack) || /^([a-z_A-Z0-9-]*Error)$/.exec(stack);
    fallback = start?.[1] ?? '';
    length = fallback.length;
    fallback ||= 'Error';
  }
  const prefix = getPrefix(constructor, tag, fallback).slice(0, -1);
  if (name === prefix) return stack;
  if (!prefix.includes(name)) return `${prefix} [${name}]${stack.slice(length)}`;
  return length === 0 ? `${prefix}: ${stack}` : `${prefix}${stack.slice(length)}`;
}

/** The error's text; `keys` loses what the text already says and gains a hidden cause and errors. */
export function formatError(ctx, error, constructor, tag, keys) {
  const name = error.name != null ? String(error.name) : 'Error';
  let stack = stackOf(error);
  if (!ctx.showHidden && keys.length !== 0) {
    for (const key of ['name', 'message', 'stack']) {
      const index = keys.indexOf(key);
      if (index !== -1 && (typeof error[key] !== 'string' || stack.includes(error[key]))) keys.splice(index, 1);
    }
  }
  if ('cause' in error && !keys.includes('cause')) keys.push('cause');
  if (Array.isArray(error.errors) && !keys.includes('errors')) keys.push('errors');
  stack = improveStack(stack, constructor, name, tag);
  const message = typeof error.message === 'string' ? error.message : '';
  let from = (message && stack.indexOf(message)) || -1;
  if (from !== -1) from += message.length;
  if (stack.indexOf('\n    at', from) === -1) stack = `[${stack}]`;
  if (ctx.indentationLvl !== 0) stack = stack.replaceAll('\n', `\n${' '.repeat(ctx.indentationLvl)}`);
  return stack;
}
