const infer = (v) => {
  if (v === null) return { type: 'null' };
  if (Array.isArray(v)) { const kinds = [...new Set(v.map((x) => JSON.stringify(infer(x))))].map((s) => JSON.parse(s)); return { type: 'array', items: kinds.length > 1 ? { anyOf: kinds } : kinds[0] ?? {} }; }
  if (typeof v === 'object') return { type: 'object', properties: Object.fromEntries(Object.entries(v).map(([k, x]) => [k, infer(x)])), required: Object.keys(v) };
  return { type: Number.isInteger(v) ? 'integer' : typeof v };
};
const sample = { id: 1, name: 'x', price: 9.5, tags: ['a', 'b'], dims: [1, 2.5, 'z'], owner: { id: 2, active: true, parent: null }, empty: [] };
console.log(infer(sample)); console.log(JSON.stringify(infer(sample), null, 1)); console.dir(infer(sample), { depth: null });
const paths = (o, p = '$') => typeof o !== 'object' || o === null ? [[p, o]] : Object.entries(o).flatMap(([k, v]) => paths(v, Array.isArray(o) ? `${p}[${k}]` : `${p}.${k}`)); console.log(paths(sample)); console.log(Object.fromEntries(paths(sample)));
const transform = (o, f) => Array.isArray(o) ? o.map((x) => transform(x, f)) : o && typeof o === 'object' ? Object.fromEntries(Object.entries(o).map(([k, v]) => [f(k), transform(v, f)])) : o; console.log(transform({ firstName: 1, nestedObj: { deepKey: [{ lastItem: 2 }] } }, (k) => k.replace(/[A-Z]/g, (c) => '_' + c.toLowerCase())));
const size = (o) => typeof o === 'object' && o ? Object.values(o).reduce((n, v) => n + size(v), 1) : 1; const depth = (o) => typeof o === 'object' && o ? 1 + Math.max(0, ...Object.values(o).map(depth)) : 0; console.log(size(sample), depth(sample)); const stable = (o) => JSON.stringify(o, (k, v) => v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v); console.log(stable({ z: 1, a: { y: 1, b: 2 } }), stable(sample) === stable(JSON.parse(JSON.stringify(sample))));
