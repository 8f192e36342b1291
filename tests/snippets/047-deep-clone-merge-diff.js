const original = { a: 1, d: new Date(0), r: /x/g, m: new Map([['k', { v: 1 }]]), s: new Set([1, [2]]), n: null, u: undefined, arr: [1, , 3], buf: new Uint8Array([1, 2]), nested: { deep: { er: true } } };
original.self = original;
const copy = structuredClone(original);
console.log(copy); console.log(copy.self === copy, copy !== original, copy.d instanceof Date, copy.m.get('k') !== original.m.get('k'), 1 in copy.arr);
for (const bad of [{ f() {} }, Symbol('s'), { w: new WeakMap() }]) { try { structuredClone(bad); console.log('cloned?'); } catch (e) { console.log(e.name, e.code, e.message); } }
const err = structuredClone(new RangeError('r', { cause: 'c' })); console.log(err instanceof RangeError, err.message, err.cause);
class P { constructor() { this.x = 1; } get y() { return 2; } } console.log(structuredClone(new P()), structuredClone(Object(5n)), structuredClone('s'), structuredClone([new P()]));
const ab = new ArrayBuffer(8); const moved = structuredClone({ ab }, { transfer: [ab] }); console.log(ab.byteLength, moved.ab.byteLength, moved);
const isObj = (o) => o && typeof o === 'object' && !Array.isArray(o);
const merge = (t, ...src) => src.reduce((acc, s) => { for (const [k, v] of Object.entries(s)) acc[k] = isObj(v) && isObj(acc[k]) ? merge({ ...acc[k] }, v) : v; return acc; }, t);
console.log(merge({ a: { b: 1, c: [1] }, x: 1 }, { a: { c: [2, 3], d: { e: 5 } } }, { x: null }));
const diff = (a, b, path = '') => [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((k) => { const p = path ? `${path}.${k}` : k; if (!(k in b)) return [`- ${p}: ${JSON.stringify(a[k])}`]; if (!(k in a)) return [`+ ${p}: ${JSON.stringify(b[k])}`]; if (isObj(a[k]) && isObj(b[k])) return diff(a[k], b[k], p); return Object.is(a[k], b[k]) || JSON.stringify(a[k]) === JSON.stringify(b[k]) ? [] : [`~ ${p}: ${JSON.stringify(a[k])} -> ${JSON.stringify(b[k])}`]; });
console.log(diff({ a: 1, b: { c: 2, d: 3 }, e: [1] }, { a: 1, b: { c: 5 }, f: true, e: [1, 2] }).join('\n'));
const get = (o, path, dflt) => path.split(/[.[\]]+/).filter(Boolean).reduce((x, k) => x?.[k], o) ?? dflt; console.log(get({ a: [{ b: { c: 7 } }] }, 'a[0].b.c'), get({}, 'x.y', 'none'));
const flat = (o, pre = '') => Object.entries(o).reduce((acc, [k, v]) => isObj(v) ? { ...acc, ...flat(v, pre + k + '.') } : { ...acc, [pre + k]: v }, {}); console.log(flat({ a: { b: { c: 1 }, d: [1, 2] }, e: 'x' }));
