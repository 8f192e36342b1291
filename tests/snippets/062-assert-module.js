const assert = require('assert');
const tests = {
  ok: () => assert.ok(true), equal: () => assert.equal(1, '1'), deep: () => assert.deepStrictEqual({ a: [1, 2] }, { a: [1, 2] }),
  failOk: () => assert(0), failMsg: () => assert(false, 'custom message'), strict: () => assert.strictEqual(1, 2), strings: () => assert.strictEqual('a', 'b', 'they differ'),
  notEq: () => assert.notStrictEqual(1, 1), throwsOk: () => assert.throws(() => { throw new TypeError('bad value'); }, TypeError), throwsRe: () => assert.throws(() => { throw new Error('abc'); }, /abc/), throwsNone: () => assert.throws(() => {}), throwsObj: () => assert.throws(() => { throw new RangeError('r'); }, { name: 'RangeError', message: 'r' }),
  doesNot: () => assert.doesNotThrow(() => {}), fail: () => assert.fail('boom'), failDefault: () => assert.fail(), match: () => assert.match('hello', /^h/), matchFail: () => assert.match('hello', /x/), ifErr: () => assert.ifError(null), errInst: () => assert.fail(new RangeError('mine')), notDeep: () => assert.notDeepStrictEqual({ a: 1 }, { a: 2 }),
};
for (const [name, fn] of Object.entries(tests)) {
  try { fn(); console.log('PASS', name); }
  catch (e) { console.log('FAIL', name, '|', e.name, '|', e.code, '|', e.message.split('\n')[0], '|', e.actual, e.expected, e.operator); }
}
assert.rejects(Promise.reject(new Error('async')), /async/).then(() => console.log('rejects ok'));
assert.rejects(Promise.resolve(1)).catch((e) => console.log(e.message));
console.log(assert.AssertionError.name, assert.strict === require('assert/strict'), new assert.AssertionError({ actual: 1, expected: 2, operator: 'strictEqual' }).message);
try { assert.deepStrictEqual([1, 2, 3], [1, 2, 4]); } catch (e) { console.log(e.message); }
try { assert.deepEqual({ a: 1, b: { c: 2 } }, { a: 1, b: { c: 3 } }); } catch (e) { console.log(e.message); }
