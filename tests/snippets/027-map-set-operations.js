const a = new Set([1, 2, 3, 4]), b = new Set([3, 4, 5]);
console.log(a.union(b), a.intersection(b), a.difference(b), a.symmetricDifference(b), a.isSubsetOf(b), new Set([3]).isSubsetOf(a));
console.log([...a].filter(x => b.has(x)), new Set('hello'), new Set([NaN, NaN, 0, -0]));
const m = new Map(Object.entries({ one: 1, two: 2 }));
m.set('three', 3).set(NaN, 'nan').set({ k: 1 }, ['v']).delete('one');
console.log(m, m.size, m.get(NaN), m.has('one'));
m.forEach((v, k, map) => console.log(k, '=>', v, map === m));
console.log(Object.fromEntries(new Map([['a', 1], ['b', 2]])), JSON.stringify([...m.keys()]), [...m.entries()][0]);
const big = new Map(Array.from({ length: 110 }, (_, i) => [i, i % 3])); console.log(big);
console.log(new Set(Array.from({ length: 105 }, (_, i) => i)));
const ws = new WeakSet(), wm = new WeakMap(); console.log(ws, wm, new WeakRef({}));
console.log(Map.groupBy([1, 2, 3, 4, 5], x => x % 2 ? 'odd' : 'even'), Object.groupBy(['apple', 'avocado', 'bean'], s => s[0]));
console.log(new Map([[{ a: 1 }, new Set([[1, 2], new Map()])]]), new Map([['k', new Map([['n', new Map([['d', {}]])]])]]));
class DefaultMap extends Map { constructor(def, it) { super(it); this.def = def; } get(k) { if (!this.has(k)) this.set(k, this.def()); return super.get(k); } }
const dm = new DefaultMap(() => []); dm.get('x').push(1); console.log(dm, dm instanceof Map);
console.log(Object.prototype.toString.call(m), `${new Set()}`, m[Symbol.toStringTag], [...new Set([3, 1, 2])].sort());
