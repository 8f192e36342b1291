// What the kernel realm takes from the program's realm, captured before `kernel.js` removes the name.
const program = globalThis.__program;

/** Prototypes of the program's realm, by those of this one. */
export const programPrototypes = new Map();
for (const name of ['Object', 'Function', 'Array']) {
  programPrototypes.set(globalThis[name].prototype, program[name].prototype);
}

/** Names and constructors of the program's classes by their prototypes, so that neither needs asking for. */
export const programClasses = new Map();
for (const name of [
  'AggregateError', 'Array', 'ArrayBuffer', 'Boolean', 'DataView', 'Date', 'Error', 'EvalError', 'Function', 'Map', 'Number',
  'Object', 'Promise', 'RangeError', 'ReferenceError', 'RegExp', 'Set', 'String', 'SyntaxError', 'TypeError', 'URIError', 'WeakMap',
  'WeakSet',
]) {
  programClasses.set(program[name].prototype, { name, constructor: program[name] });
}

/** The program's own functions among this realm's names: the error classes. */
export const sharedClasses = Object.getOwnPropertyNames(globalThis)
  .map((name) => globalThis[name])
  .filter((value) => typeof value === 'function' && value === program[value.name]);

/** What plain objects that reach the program inherit from. */
export const programObject = program.Object.prototype;

/** The program's own: a `toJSON` that it gives a primitive's prototype counts. */
export const programStringify = program.JSON.stringify;
