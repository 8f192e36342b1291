// Event, EventTarget, CustomEvent, AbortController, AbortSignal and DOMException as node 22 has them.
//
// Ours because the source we otherwise draw on swallows what a listener throws; node reports it as an uncaught exception.
import { native } from 'plimsoll:internal/native';
import { codes, codedError, ERR_MISSING_ARGS, ERR_INVALID_THIS, ERR_ILLEGAL_CONSTRUCTOR } from 'plimsoll:internal/errors';
import { customInspect, inspect } from 'plimsoll:internal/inspect';
import { markClasses } from 'plimsoll:internal/inspect-names';
import { nextTick, setTimeout } from 'plimsoll:internal/loop';

const DOM_CODES = {
  IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5,
  NoModificationAllowedError: 7, NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11,
  SyntaxError: 12, InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17,
  SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22, TimeoutError: 23,
  InvalidNodeTypeError: 24, DataCloneError: 25,
};

/** A DOMException is an Error whose name, message and code live on accessors, so none of them prints as a property. */
class DOMException extends Error {
  #name;

  constructor(message = '', options = 'Error') {
    super(`${message}`);
    const isBag = options !== null && typeof options === 'object';
    this.#name = `${(isBag ? options.name : options) ?? 'Error'}`;
    if (isBag && 'cause' in options) {
      Object.defineProperty(this, 'cause', { value: options.cause, writable: true, configurable: true, enumerable: false });
    }
    const stack = String(this.stack ?? '');
    const frames = stack.indexOf('\n    at');
    const head = `${this.#name}${this.message === '' ? '' : `: ${this.message}`}`;
    Object.defineProperty(this, 'stack', {
      value: `${head}${frames === -1 ? '' : stack.slice(frames)}`,
      writable: true,
      configurable: true,
      enumerable: false,
    });
  }

  get name() {
    return this.#name;
  }

  get code() {
    return DOM_CODES[this.#name] ?? 0;
  }

  [customInspect](depth, options) {
    const { stack } = this;
    return stack.includes('\n    at') ? stack : `[${stack}]`;
  }
}
Object.defineProperty(DOMException.prototype, Symbol.toStringTag, { value: 'DOMException', configurable: true });
for (const [name, code] of Object.entries(DOM_CODES)) {
  const constant = `${name.replace(/Error$/, '').replace(/(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, '_').toUpperCase()}_ERR`;
  for (const target of [DOMException, DOMException.prototype]) {
    Object.defineProperty(target, constant, { value: code, enumerable: true });
  }
}

const KIND = Symbol('event state');

class Event {
  constructor(type, options = undefined) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
    if (options != null && typeof options !== 'object') throw new codes.ERR_INVALID_ARG_TYPE('options', 'Object', options);
    Object.defineProperty(this, KIND, {
      value: {
        type: `${type}`,
        bubbles: !!options?.bubbles,
        cancelable: !!options?.cancelable,
        composed: !!options?.composed,
        timeStamp: native.peek(),
        prevented: false,
        stopped: false,
        propagationStopped: false,
        dispatching: false,
        trusted: false,
        passive: false,
        target: null,
      },
    });
  }

  get type() { return this[KIND].type; }
  get target() { return this[KIND].target; }
  get currentTarget() { return this[KIND].dispatching ? this[KIND].target : null; }
  get srcElement() { return this[KIND].target; }
  get eventPhase() { return this[KIND].dispatching ? 2 : 0; }
  get bubbles() { return this[KIND].bubbles; }
  get cancelable() { return this[KIND].cancelable; }
  get composed() { return this[KIND].composed; }
  get defaultPrevented() { return this[KIND].cancelable && this[KIND].prevented; }
  get returnValue() { return !this.defaultPrevented; }
  get timeStamp() { return this[KIND].timeStamp; }
  get isTrusted() { return this[KIND].trusted; }
  get cancelBubble() { return this[KIND].propagationStopped; }
  set cancelBubble(value) { if (value) this.stopPropagation(); }

  composedPath() {
    return this[KIND].dispatching ? [this[KIND].target] : [];
  }

  preventDefault() {
    if (!this[KIND].passive) this[KIND].prevented = true;
  }

  stopPropagation() {
    this[KIND].propagationStopped = true;
  }

  stopImmediatePropagation() {
    this[KIND].propagationStopped = true;
    this[KIND].stopped = true;
  }

  [customInspect](depth, options) {
    const name = this.constructor.name;
    if (depth < 0) return name;
    const shown = {
      type: this.type, defaultPrevented: this.defaultPrevented, cancelable: this.cancelable, timeStamp: this.timeStamp,
    };
    return `${name} ${inspect(shown, { ...options, depth: options.depth == null ? null : options.depth - 1 })}`;
  }
}
Object.defineProperty(Event.prototype, Symbol.toStringTag, { value: 'Event', configurable: true });
for (const [name, value] of [['NONE', 0], ['CAPTURING_PHASE', 1], ['AT_TARGET', 2], ['BUBBLING_PHASE', 3]]) {
  Object.defineProperty(Event, name, { value, enumerable: true });
  Object.defineProperty(Event.prototype, name, { value, enumerable: true });
}

class CustomEvent extends Event {
  #detail;

  constructor(type, options) {
    super(type, options);
    this.#detail = options?.detail ?? null;
  }

  get detail() {
    return this.#detail;
  }
}
Object.defineProperty(CustomEvent.prototype, Symbol.toStringTag, { value: 'CustomEvent', configurable: true });

const LISTENERS = Symbol('event listeners');

function listenersOf(target) {
  if (target?.[LISTENERS] === undefined) throw new ERR_INVALID_THIS('EventTarget');
  return target[LISTENERS];
}

const captureOf = (options) => (typeof options === 'boolean' ? options : !!options?.capture);

class EventTarget {
  constructor() {
    Object.defineProperty(this, LISTENERS, { value: new Map() });
  }

  addEventListener(type, listener, options = undefined) {
    const all = listenersOf(this);
    if (arguments.length < 2) throw new ERR_MISSING_ARGS('type', 'listener');
    if (listener == null) return;
    if (typeof listener !== 'function' && typeof listener !== 'object') {
      throw new codes.ERR_INVALID_ARG_TYPE('listener', 'EventListener', listener);
    }
    const signal = options?.signal;
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new codes.ERR_INVALID_ARG_TYPE('options.signal', 'AbortSignal', signal);
    }
    if (signal?.aborted) return;
    type = `${type}`;
    const capture = captureOf(options);
    const list = all.get(type) ?? [];
    if (list.some((entry) => entry.listener === listener && entry.capture === capture)) return;
    all.set(type, [...list, { listener, capture, once: !!options?.once, passive: !!options?.passive, removed: false }]);
    signal?.addEventListener('abort', () => this.removeEventListener(type, listener, options), { once: true });
  }

  removeEventListener(type, listener, options = undefined) {
    const all = listenersOf(this);
    type = `${type}`;
    const capture = captureOf(options);
    const kept = (all.get(type) ?? []).filter((entry) => {
      const drop = entry.listener === listener && entry.capture === capture;
      if (drop) entry.removed = true;
      return !drop;
    });
    if (kept.length > 0) all.set(type, kept);
    else all.delete(type);
  }

  dispatchEvent(event) {
    const all = listenersOf(this);
    if (!(event instanceof Event)) throw new codes.ERR_INVALID_ARG_TYPE('event', 'Event', event);
    const state = event[KIND];
    if (state.dispatching) {
      throw codedError(Error, 'ERR_EVENT_RECURSION', `The event "${event.type}" is already being dispatched`);
    }
    state.target = this;
    state.dispatching = true;
    for (const entry of all.get(event.type) ?? []) {
      if (state.stopped) break;
      if (entry.removed) continue;
      if (entry.once) this.removeEventListener(event.type, entry.listener, { capture: entry.capture });
      state.passive = entry.passive;
      try {
        const { listener } = entry;
        const result = typeof listener === 'function' ? listener.call(this, event) : listener.handleEvent(event);
        if (typeof result?.then === 'function') result.then(undefined, reportLater);
      } catch (error) {
        reportLater(error);
      }
      state.passive = false;
    }
    state.dispatching = false;
    return !event.defaultPrevented;
  }

  [customInspect](depth, options) {
    const name = this.constructor.name;
    return depth < 0 ? name : `${name} ${inspect({}, options)}`;
  }
}
Object.defineProperty(EventTarget.prototype, Symbol.toStringTag, { value: 'EventTarget', configurable: true });

/** What a listener throws reaches the program as an uncaught exception, after the dispatch. */
function reportLater(error) {
  nextTick(() => {
    throw error;
  });
}

/** `onabort` and its like: one listener slot behind a property. */
function defineHandler(prototype, name) {
  const slot = Symbol(`on${name}`);
  Object.defineProperty(prototype, `on${name}`, {
    configurable: true,
    enumerable: true,
    get() {
      return this[slot]?.handler ?? null;
    },
    set(handler) {
      if (this[slot] !== undefined) this.removeEventListener(name, this[slot].run);
      const run = function run(event) {
        return handler.call(this, event);
      };
      const value = typeof handler === 'function' ? { handler, run } : undefined;
      Object.defineProperty(this, slot, { value, writable: true, configurable: true, enumerable: false });
      if (value !== undefined) this.addEventListener(name, run);
    },
  });
}

const SIGNAL = Symbol('signal state');

class AbortSignal extends EventTarget {
  constructor(key) {
    if (key !== SIGNAL) throw new ERR_ILLEGAL_CONSTRUCTOR();
    super();
    Object.defineProperty(this, SIGNAL, { value: { aborted: false, reason: undefined } });
  }

  get aborted() {
    if (this?.[SIGNAL] === undefined) throw new ERR_INVALID_THIS('AbortSignal');
    return this[SIGNAL].aborted;
  }

  get reason() {
    if (this?.[SIGNAL] === undefined) throw new ERR_INVALID_THIS('AbortSignal');
    return this[SIGNAL].reason;
  }

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }

  [customInspect](depth, options) {
    if (depth < 0) return '[AbortSignal]';
    return `AbortSignal ${inspect({ aborted: this.aborted }, options)}`;
  }

  static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    const signal = new AbortSignal(SIGNAL);
    signal[SIGNAL].aborted = true;
    signal[SIGNAL].reason = reason;
    return signal;
  }

  static timeout(delay) {
    if (typeof delay !== 'number') throw new codes.ERR_INVALID_ARG_TYPE('delay', 'number', delay);
    if (!Number.isInteger(delay) || delay < 0) {
      throw new codes.ERR_OUT_OF_RANGE('delay', Number.isInteger(delay) ? '>= 0 && <= 4294967295' : 'an integer', delay);
    }
    const signal = new AbortSignal(SIGNAL);
    setTimeout(() => {
      abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
    }, delay).unref();
    return signal;
  }

  static any(signals) {
    if (typeof signals?.[Symbol.iterator] !== 'function') {
      throw new codes.ERR_INVALID_ARG_TYPE('signals', 'Array', signals);
    }
    const sources = [...signals];
    sources.forEach((source, i) => {
      if (!(source instanceof AbortSignal)) throw new codes.ERR_INVALID_ARG_TYPE(`signals[${i}]`, 'AbortSignal', source);
    });
    const result = new AbortSignal(SIGNAL);
    const done = sources.find((source) => source.aborted);
    if (done) {
      result[SIGNAL].aborted = true;
      result[SIGNAL].reason = done.reason;
      return result;
    }
    for (const source of sources) source.addEventListener('abort', () => abort(result, source.reason), { once: true });
    return result;
  }
}
Object.defineProperty(AbortSignal.prototype, Symbol.toStringTag, { value: 'AbortSignal', configurable: true });
defineHandler(AbortSignal.prototype, 'abort');

function abort(signal, reason) {
  const state = signal[SIGNAL];
  if (state.aborted) return;
  state.aborted = true;
  state.reason = reason;
  const event = new Event('abort');
  event[KIND].trusted = true;
  signal.dispatchEvent(event);
}

class AbortController {
  #signal = new AbortSignal(SIGNAL);

  get signal() {
    return this.#signal;
  }

  abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    abort(this.#signal, reason);
  }

  [customInspect](depth, options) {
    if (depth < 0) return '[AbortController]';
    return `AbortController ${inspect({ signal: this.#signal }, { ...options, depth: options.depth == null ? null : options.depth - 1 })}`;
  }
}
Object.defineProperty(AbortController.prototype, Symbol.toStringTag, { value: 'AbortController', configurable: true });

/** The error of an operation that a signal ended: an Error, not a DOMException, with the reason as its cause. */
function abortError(signal) {
  const error = new Error('The operation was aborted', signal === undefined ? undefined : { cause: signal.reason });
  error.name = 'AbortError';
  error.code = 'ABORT_ERR';
  return error;
}

/** Calls `listener` once when `signal` aborts; returns what undoes it. */
function onAbort(signal, listener) {
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

markClasses(Event, CustomEvent, EventTarget, AbortSignal, AbortController, DOMException);

export { Event, CustomEvent, EventTarget, AbortSignal, AbortController, DOMException, LISTENERS, abortError, onAbort };
