// `perf_hooks` on the virtual clock.
import { native } from 'plimsoll:internal/native';
import { codes, codedError } from 'plimsoll:internal/errors';
import { DOMException } from 'plimsoll:internal/event-target';
import { customInspect, inspect } from 'plimsoll:internal/inspect';

export class PerformanceEntry {
  constructor(name, entryType, startTime, duration, detail) {
    Object.assign(this, { name, entryType, startTime, duration, detail });
  }

  toJSON() {
    return { ...this };
  }

  [customInspect](depth, options) {
    return depth < 0 ? 'PerformanceEntry' : `${this.constructor.name} ${inspect({ ...this }, options)}`;
  }
}

export class PerformanceMark extends PerformanceEntry {
  constructor(name, options = undefined) {
    super(`${name}`, 'mark', options?.startTime ?? native.monotonic(), 0, options?.detail ?? null);
  }
}

export class PerformanceMeasure extends PerformanceEntry {}

const entries = [];

function timeOf(mark) {
  if (typeof mark === 'number') return mark;
  const found = entries.findLast((entry) => entry.entryType === 'mark' && entry.name === mark);
  if (found === undefined) throw new DOMException(`The "${mark}" performance mark has not been set`, 'SyntaxError');
  return found.startTime;
}

class Performance {
  now() {
    return native.monotonic();
  }

  get timeOrigin() {
    // `now` and `peek` are one clock: the reading itself moved it on by one.
    return native.now() - native.peek() + 1;
  }

  mark(name, options) {
    const mark = new PerformanceMark(name, options);
    entries.push(mark);
    return mark;
  }

  measure(name, startOrOptions, endMark) {
    const options = startOrOptions !== null && typeof startOrOptions === 'object' ? startOrOptions : undefined;
    const end = options ? options.end : endMark;
    const begin = options ? options.start : startOrOptions;
    const endTime = end === undefined ? native.monotonic() : timeOf(end);
    const startTime = begin === undefined ? 0 : timeOf(begin);
    const measure = new PerformanceMeasure(`${name}`, 'measure', startTime, endTime - startTime, options?.detail ?? null);
    entries.push(measure);
    return measure;
  }

  getEntries() {
    return entries.toSorted((a, b) => a.startTime - b.startTime);
  }

  getEntriesByName(name, type) {
    return this.getEntries().filter((entry) => entry.name === name && (type === undefined || entry.entryType === type));
  }

  getEntriesByType(type) {
    return this.getEntries().filter((entry) => entry.entryType === type);
  }

  clearMarks(name) {
    drop('mark', name);
  }

  clearMeasures(name) {
    drop('measure', name);
  }

  timerify(fn) {
    if (typeof fn !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('fn', 'function', fn);
    return fn;
  }

  eventLoopUtilization() {
    return { idle: 0, active: 0, utilization: 0 };
  }

  toJSON() {
    return { timeOrigin: this.timeOrigin, nodeTiming: {}, eventLoopUtilization: this.eventLoopUtilization() };
  }
}
Object.defineProperty(Performance.prototype, Symbol.toStringTag, { value: 'Performance', configurable: true });

function drop(type, name) {
  const kept = entries.filter((entry) => entry.entryType !== type || (name !== undefined && entry.name !== name));
  entries.splice(0, entries.length, ...kept);
}

export const performance = new Performance();

export class PerformanceObserver {
  constructor(callback) {
    if (typeof callback !== 'function') throw new codes.ERR_INVALID_ARG_TYPE('callback', 'Function', callback);
  }

  observe() {
    throw codedError(Error, 'ERR_FEATURE_UNAVAILABLE', 'PerformanceObserver is not available in this sandbox; use performance.getEntries()');
  }

  disconnect() {}
}

export const constants = {};

export default { performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, constants };
