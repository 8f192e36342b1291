// `timers/promises`.
import * as loop from 'plimsoll:internal/loop';
import { abortError, onAbort, AbortSignal } from 'plimsoll:internal/event-target';
import { codes } from 'plimsoll:internal/errors';

/** A promise that `begin(resolve)` settles later, or that `options.signal` rejects; `cancel` gets what `begin` returned. */
function wait(begin, cancel, value, options) {
  const signal = options?.signal;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    return Promise.reject(new codes.ERR_INVALID_ARG_TYPE('options.signal', 'AbortSignal', signal));
  }
  if (signal?.aborted) return Promise.reject(abortError(signal));
  return new Promise((resolve, reject) => {
    let release = () => {};
    const timer = begin(() => {
      release();
      resolve(value);
    });
    if (options?.ref === false) timer.unref();
    if (signal !== undefined) {
      release = onAbort(signal, () => {
        cancel(timer);
        reject(abortError(signal));
      });
    }
  });
}

export const setTimeout = (delay, value, options) =>
  wait((done) => loop.setTimeout(done, delay), loop.clearTimeout, value, options);

export const setImmediate = (value, options) => wait((done) => loop.setImmediate(done), loop.clearImmediate, value, options);

export async function* setInterval(delay, value, options) {
  const signal = options?.signal;
  if (signal?.aborted) throw abortError(signal);
  let due = 0;
  let wake = () => {};
  const timer = loop.setInterval(() => {
    due++;
    wake();
  }, delay);
  if (options?.ref === false) timer.unref();
  const release = signal === undefined ? () => {} : onAbort(signal, () => wake());
  try {
    while (!signal?.aborted) {
      if (due === 0) {
        const { promise, resolve } = Promise.withResolvers();
        wake = resolve;
        await promise;
      }
      for (; due > 0; due--) yield value;
    }
    throw abortError(signal);
  } finally {
    release();
    loop.clearInterval(timer);
  }
}

export const scheduler = {
  wait: (delay, options) => setTimeout(delay, undefined, options),
  yield: () => setImmediate(),
};

export default { setTimeout, setImmediate, setInterval, scheduler };
