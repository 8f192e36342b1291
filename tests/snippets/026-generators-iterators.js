function* range(start, end, step = 1) { for (let i = start; i < end; i += step) yield i; }
console.log([...range(0, 10, 3)], Array.from(range(1, 4), x => x ** 2));
function* twoWay() { const x = yield 'first'; console.log('got', x); try { yield x * 2; } finally { console.log('cleanup'); } return 'end'; }
const it = twoWay();
console.log(it.next(), it.next(21), it.return('early'), it.next());
console.log(it, range(0, 1), twoWay, Object.prototype.toString.call(it));
const take = (n, iter) => { const out = []; for (const x of iter) { if (out.length >= n) break; out.push(x); } return out; };
function* naturals() { let n = 1; while (true) yield n++; }
const primes = function* () { const found = []; for (const n of naturals()) if (n > 1 && found.every(p => n % p)) { found.push(n); yield n; } };
console.log(take(10, primes()));
console.log(naturals().filter(x => x % 2).map(x => x * 10).take(4).toArray());
console.log([...'ab'].entries().toArray(), Iterator.from([1, 2, 3]).drop(1).reduce((a, b) => a + b));
const iterable = { from: 1, to: 3, [Symbol.iterator]() { let c = this.from, t = this.to; return { next: () => c <= t ? { value: c++, done: false } : { value: undefined, done: true } }; } };
console.log([...iterable], Math.max(...iterable), new Set(iterable), iterable);
console.log([1, 2][Symbol.iterator](), new Map([[1, 2]]).entries(), new Set([5]).values(), 'ab'[Symbol.iterator](), 'ab'.matchAll(/a/g));
const m = new Map([['x', 1], ['y', 2]]); const mi = m.keys(); mi.next(); console.log(mi, [...mi], m.values());
function* delegating() { const r = yield* inner(); console.log('inner returned', r); yield 3; } function* inner() { yield 1; yield 2; return 'r'; }
for (const v of delegating()) console.log(v);
try { const g = (function* () { throw new Error('gen boom'); })(); g.next(); } catch (e) { console.log(e.message); }
const g2 = (function* () { g2.next(); })(); try { g2.next(); } catch (e) { console.log(e.name, e.message); }
