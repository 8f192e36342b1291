// `timers`.
import * as loop from 'plimsoll:internal/loop';
import promises from 'node:timers/promises';

export const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = loop;
// What `util.promisify` makes of them.
const custom = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(setTimeout, custom, { get: () => promises.setTimeout, configurable: true });
Object.defineProperty(setImmediate, custom, { get: () => promises.setImmediate, configurable: true });

export { promises };
export default { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
