const tree = {
  value: 8,
  left: { value: 3, left: { value: 1 }, right: { value: 6, left: { value: 4 }, right: { value: 7 } } },
  right: { value: 10, right: { value: 14, left: { value: 13 } } },
};
const walk = function* (n) { if (!n) return; yield* walk(n.left); yield n.value; yield* walk(n.right); };
console.log([...walk(tree)]);
const depth = n => n ? 1 + Math.max(depth(n.left), depth(n.right)) : 0;
console.log('depth', depth(tree));
const show = (n, pad = '', tag = '') => { if (!n) return; console.log(pad + tag + n.value); show(n.left, pad + '  ', 'L:'); show(n.right, pad + '  ', 'R:'); };
show(tree);
const flatten = a => a.reduce((acc, x) => acc.concat(Array.isArray(x) ? flatten(x) : x), []);
console.log(flatten([1, [2, [3, [4, [5]]]], [], [[6]]]), [1, [2, [3, [4]]]].flat(Infinity));
const perms = a => a.length <= 1 ? [a] : a.flatMap((x, i) => perms([...a.slice(0, i), ...a.slice(i + 1)]).map(p => [x, ...p]));
console.log(perms(['a', 'b', 'c']).map(p => p.join('')), perms([1, 2, 3, 4]).length);
const hanoi = (n, a, b, c, out = []) => { if (n) { hanoi(n - 1, a, c, b, out); out.push(`${a}->${c}`); hanoi(n - 1, b, a, c, out); } return out; };
console.log(hanoi(3, 'A', 'B', 'C').join(' '), hanoi(10, 'A', 'B', 'C').length);
const ack = (m, n) => m === 0 ? n + 1 : n === 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1));
console.log(ack(2, 3));
const sum = n => n === 0 ? 0 : n + sum(n - 1);
console.log(sum(5000));
try { sum(1e7); } catch (e) { console.log(e instanceof RangeError, e.message); }
console.log(tree);
