const node = { name: 'root', children: [] };
const child = { name: 'child', parent: node };
node.children.push(child, child);
node.self = node;
console.log(node);
const a = { id: 1 }, b = { id: 2, a }; a.b = b;
console.log([a, b]);
const m = new Map(); m.set('me', m); console.log(m);
const arr = [1]; arr.push(arr, [arr]); console.log(arr);
try {
  JSON.stringify(a);
} catch (e) {
  console.log(e.name, e instanceof TypeError, e.message.split('\n')[0]);
}
class Tree { constructor(v) { this.v = v; this.kids = []; this.up = null; } add(k) { k.up = this; this.kids.push(k); return this; } }
console.log(new Tree(1).add(new Tree(2).add(new Tree(3))));
const seen = new WeakSet();
const safe = JSON.stringify(node, (k, v) => {
  if (typeof v === 'object' && v !== null) { if (seen.has(v)) return '[Circular]'; seen.add(v); }
  return v;
}, 2);
console.log(safe);
