const target = { a: 1, secret: 'x' };
const log = [];
const p = new Proxy(target, {
  get(t, k, r) { log.push(`get ${String(k)}`); return k in t ? Reflect.get(t, k, r) : `no_${String(k)}`; },
  set(t, k, v) { if (typeof v !== 'number') throw new TypeError(`${k} must be a number`); t[k] = v; return true; },
  has(t, k) { return k !== 'secret' && k in t; }, deleteProperty(t, k) { log.push('del ' + k); return delete t[k]; }, ownKeys: t => Reflect.ownKeys(t).filter(k => k !== 'secret'),
});
console.log(p.a, p.zzz, 'secret' in p, 'a' in p, Object.keys(p)); p.b = 2; delete p.a;
try { p.c = 'str'; } catch (e) { console.log(e.message); } console.log(log, target);
console.log(p, new Proxy([1, 2], {}), new Proxy(function f() {}, {}), new Proxy(class Q {}, {}));
const neg = new Proxy([1, 2, 3], { get: (t, k, r) => typeof k === 'string' && /^-\d+$/.test(k) ? t[t.length + +k] : Reflect.get(t, k, r) }); console.log(neg[-1], neg[0], neg.length, JSON.stringify(neg), Array.isArray(neg));
const fnProxy = new Proxy((a, b) => a + b, { apply: (t, th, args) => t(...args) * 10 }); console.log(fnProxy(1, 2));
const Sing = new Proxy(class S { constructor(n) { this.n = n; } }, { construct(t, args) { return Reflect.construct(t, args.map(x => x * 2)); } }); console.log(new Sing(4));
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); try { proxy.x; } catch (e) { console.log(e.name, e.message); }
console.log(Reflect.ownKeys({ b: 1, a: 2, 1: 3, [Symbol('s')]: 4 }), Reflect.has({ x: 1 }, 'x'), Reflect.getPrototypeOf([]) === Array.prototype, Reflect.apply(Math.max, null, [1, 3]), Reflect.defineProperty(Object.freeze({}), 'a', { value: 1 }));
const frozen = Object.freeze({ n: { m: 1 }, arr: [1] }); frozen.n.m = 2; frozen.x = 1; console.log(frozen, Object.isFrozen(frozen), Object.isFrozen(frozen.n)); const sealed = Object.seal({ a: 1 }); sealed.a = 2; delete sealed.a; sealed.b = 1; console.log(sealed);
const def = {}; Object.defineProperty(def, 'hid', { value: 1, enumerable: false }); Object.defineProperty(def, 'vis', { get: () => 5, enumerable: true }); console.log(def, def.hid, Object.getOwnPropertyDescriptors(def)); console.log(Object.getOwnPropertyNames(def));
'use strict'; const observed = (obj, cb) => new Proxy(obj, { set(t, k, v) { cb(k, t[k], v); return Reflect.set(t, k, v); } }); const o = observed({ v: 1 }, (...a) => console.log('change', ...a)); o.v = 2; o.w = { x: 1 };
