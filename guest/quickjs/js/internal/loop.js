// The event loop: ticks, timers and immediates on the run's virtual clock, in node's order. The shim calls `tick` ahead of
// promise jobs and `idle` when none are left.
import { native } from 'plimsoll:kernel/native';
import { programPrototypes } from 'plimsoll:kernel/realm';
import { codes } from 'plimsoll:internal/errors';

const LONGEST_DELAY = 2 ** 31 - 1;

const ticks = [];
let tickHead = 0;

export function nextTick(callback, ...args) {
  if (typeof callback !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('callback', 'Function', callback);
  ticks.push(callback, args);
}

function runTicks() {
  if (ticks.length === 0) return false;
  try {
    while (tickHead < ticks.length) {
      const callback = ticks[tickHead];
      const args = ticks[tickHead + 1];
      tickHead += 2;
      Reflect.apply(callback, undefined, args);
    }
  } finally {
    // After a throw the rest stays queued; the uncaught hook decides whether it still runs.
    ticks.splice(0, tickHead);
    tickHead = 0;
  }
  return true;
}

// A binary heap on (due, sequence). Nothing here is set at build time: sequence numbers start in the run.
const heap = [];
let sequence = 0;
let emitWarning;

/** `process` hands over how a warning is told. */
export function setEmitWarning(emit) {
  emitWarning = emit;
}
const live = new Map();

const before = (a, b) => a.due < b.due || (a.due === b.due && a.order < b.order);

function push(entry) {
  let at = heap.length;
  heap.push(entry);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (!before(entry, heap[parent])) break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = entry;
}

function pop() {
  const top = heap[0];
  const last = heap.pop();
  if (heap.length > 0) {
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (!before(heap[child], last)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
  }
  return top;
}

const engineQueueMicrotask = globalThis.queueMicrotask;

export function queueMicrotask(callback) {
  requireFunction(callback);
  engineQueueMicrotask(() => callback());
}

/** The arguments a program's callback gets, kept where the program sees them; undefined if there are none. */
const programArray = programPrototypes.get(Array.prototype);
const kept = (args) => (args.length > 0 ? Object.setPrototypeOf(args, programArray) : undefined);
const NO_ARGUMENTS = [];

let liveReferenced = 0;
/** The loop's own view of a timer, out of the program's sight; undefined for anything else. */
let stateOf;

/** Shows the program something of a timer or an immediate. It may have frozen the object, or put a setter on it. */
function show(object, name, value) {
  Reflect.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

export class Timeout {
  // `entry`: the place in the heap, replaced when the timer starts anew, so that an old place is known as stale.
  #state = { entry: null, id: 0, referenced: true, destroyed: false };

  static {
    stateOf = (timer) => (#state in timer ? timer.#state : undefined);
  }

  constructor(callback, delay, args, repeat) {
    this._idleTimeout = delay;
    this._onTimeout = callback;
    this._timerArgs = kept(args);
    this._repeat = repeat ? delay : null;
    this._destroyed = false;
    start(this);
  }

  ref() {
    return setReferenced(this, true);
  }

  unref() {
    return setReferenced(this, false);
  }

  hasRef() {
    return this.#state.referenced;
  }

  refresh() {
    if (!this.#state.destroyed) start(this);
    return this;
  }

  close() {
    clearTimeout(this);
    return this;
  }

  [Symbol.toPrimitive]() {
    const state = this.#state;
    live.set(state.id, this);
    return state.id;
  }

  [Symbol.dispose]() {
    clearTimeout(this);
  }
}

function start(timer) {
  const state = stateOf(timer);
  if (state.entry === null && state.referenced) liveReferenced++;
  if (state.id === 0) state.id = ++sequence;
  state.entry = { due: native.peek() + timer._idleTimeout, order: ++sequence, timer };
  push(state.entry);
}

function stop(timer) {
  const state = stateOf(timer);
  if (state.entry !== null && state.referenced) liveReferenced--;
  state.entry = null;
}

function setReferenced(timer, referenced) {
  const state = stateOf(timer);
  if (state.referenced !== referenced && state.entry !== null) liveReferenced += referenced ? 1 : -1;
  state.referenced = referenced;
  return timer;
}

function delayOf(delay) {
  delay = +delay;
  if (delay > LONGEST_DELAY) {
    emitWarning(
      `${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`,
      'TimeoutOverflowWarning',
    );
    return 1;
  }
  return delay >= 1 ? Math.trunc(delay) : 1;
}

function requireFunction(callback) {
  if (typeof callback !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('callback', 'Function', callback);
}

export function setTimeout(callback, delay, ...args) {
  requireFunction(callback);
  return new Timeout(callback, delayOf(delay), args, false);
}

export function setInterval(callback, delay, ...args) {
  requireFunction(callback);
  return new Timeout(callback, delayOf(delay), args, true);
}

export function clearTimeout(timer) {
  if (typeof timer === 'number' || typeof timer === 'string') timer = live.get(+timer);
  const state = timer instanceof Timeout ? stateOf(timer) : undefined;
  if (state === undefined || state.destroyed) return;
  stop(timer);
  destroy(timer);
}

function destroy(timer) {
  const state = stateOf(timer);
  live.delete(state.id);
  state.destroyed = true;
  show(timer, '_destroyed', true);
}

export const clearInterval = (timer) => clearTimeout(timer);

const immediates = [];
/** As `stateOf`, of an immediate. */
let immediateOf;
let currentImmediates = [];

export class Immediate {
  #state = { referenced: true, destroyed: false };

  static {
    immediateOf = (immediate) => (#state in immediate ? immediate.#state : undefined);
  }

  constructor(callback, args) {
    this._onImmediate = callback;
    this._argv = kept(args);
    this._destroyed = false;
    immediates.push(this);
  }

  ref() {
    this.#state.referenced = true;
    return this;
  }

  unref() {
    this.#state.referenced = false;
    return this;
  }

  hasRef() {
    return this.#state.referenced;
  }

  [Symbol.dispose]() {
    clearImmediate(this);
  }
}

export function setImmediate(callback, ...args) {
  requireFunction(callback);
  return new Immediate(callback, args);
}

function endImmediate(immediate) {
  immediateOf(immediate).destroyed = true;
  show(immediate, '_destroyed', true);
}

/** Whether an immediate keeps the program going. */
const waits = (immediate) => !immediateOf(immediate).destroyed && immediateOf(immediate).referenced;

export function clearImmediate(immediate) {
  if (immediate instanceof Immediate && immediateOf(immediate) !== undefined) endImmediate(immediate);
}

function runTimer(timer) {
  const state = stateOf(timer);
  const mine = state.entry;
  try {
    Reflect.apply(timer._onTimeout, timer, timer._timerArgs ?? NO_ARGUMENTS);
  } finally {
    // Unless the callback cleared or refreshed it, the timer ends or starts its next round here.
    if (state.entry === mine) {
      if (timer._repeat !== null && !state.destroyed) {
        show(timer, '_idleTimeout', timer._repeat);
        start(timer);
      } else {
        stop(timer);
        destroy(timer);
      }
    }
  }
}

function dropStale() {
  while (heap.length > 0 && stateOf(heap[0].timer).entry !== heap[0]) pop();
}

// Timers that were due when the timer phase began; they run one by one, with ticks and jobs between.
let phase = 'timers';
let phaseNow = -1;

/** Timers due now run in this phase; what they start themselves is due later, for every delay is at least 1 ms. */
function startTimers() {
  phaseNow = native.peek();
}

/** One macrotask. Phases go round: due timers, then the immediates queued so far. The clock jumps only when both are empty. */
function idle() {
  if (heap.length === 0 && immediates.length === 0 && currentImmediates.length === 0) return leave();
  for (let rounds = 0; rounds < 3; rounds++) {
    if (phase === 'timers') {
      if (phaseNow === -1) {
        // Loading the program took node longer than that: timers without a delay go ahead of immediates.
        native.advance(1);
        startTimers();
      }
      dropStale();
      if (heap.length > 0 && heap[0].due <= phaseNow) {
        runTimer(pop().timer);
        return true;
      }
      phase = 'immediates';
      currentImmediates = immediates.splice(0);
    }
    while (currentImmediates.length > 0) {
      const immediate = currentImmediates.shift();
      if (immediateOf(immediate).destroyed) continue;
      endImmediate(immediate);
      Reflect.apply(immediate._onImmediate, immediate, immediate._argv ?? NO_ARGUMENTS);
      return true;
    }
    phase = 'timers';
    dropStale();
    const queued = immediates.some(waits);
    if (queued) {
      // A turn of the loop takes time, or a chain of immediates would keep every timer from its turn.
      native.advance(1);
    } else {
      if (liveReferenced === 0) return leave();
      native.advance(heap[0].due - native.peek());
    }
    startTimers();
  }
  return false;
}

let beforeExit;

/** `hook` is called each time nothing is left to do; it may give the loop new work. */
export function setBeforeExit(hook) {
  beforeExit = hook;
}

function leave() {
  beforeExit?.();
  return ticks.length > 0 || liveReferenced > 0 || immediates.some(waits);
}

/** Forgets whatever waits for its turn: a cell has ended, and what it started ends with it. */
function sweep() {
  for (const { timer } of heap) {
    stateOf(timer).entry = null;
    destroy(timer);
  }
  for (const immediate of [...immediates, ...currentImmediates]) endImmediate(immediate);
  for (const queue of [heap, ticks, immediates, currentImmediates]) queue.length = 0;
  live.clear();
  liveReferenced = 0;
  tickHead = 0;
  phase = 'timers';
  phaseNow = -1;
}

native.setTick(runTicks);
native.setSweep(sweep);
native.setIdle(idle);
