const data = [64, 34, 25, 12, 22, 11, 90, -5, 0, 34];
const quick = a => a.length < 2 ? a : [...quick(a.slice(1).filter(x => x < a[0])), a[0], ...quick(a.slice(1).filter(x => x >= a[0]))];
const merge = a => { if (a.length < 2) return a; const m = a.length >> 1, l = merge(a.slice(0, m)), r = merge(a.slice(m)), o = []; while (l.length && r.length) o.push(l[0] <= r[0] ? l.shift() : r.shift()); return [...o, ...l, ...r]; };
function bubble(arr) { const a = [...arr]; let swaps = 0; for (let i = 0; i < a.length; i++) for (let j = 0; j < a.length - i - 1; j++) if (a[j] > a[j + 1]) { [a[j], a[j + 1]] = [a[j + 1], a[j]]; swaps++; } return { a, swaps }; }
console.log(quick(data), merge(data), bubble(data));
console.log([...data].sort(), [...data].sort((a, b) => a - b), data.toSorted((a, b) => b - a), data.toReversed());
const people = [{ n: 'Al', a: 30 }, { n: 'Bo', a: 25 }, { n: 'Cy', a: 30 }, { n: 'Di', a: 25 }];
console.log(people.sort((x, y) => x.a - y.a).map(p => p.n).join(), [undefined, 3, , null, 1].sort(), ['B', 'a', 'C', undefined].sort());
console.log([10, 9, 1].sort(), [true, false].sort(), ['é', 'z', 'e', 'a'].sort(), ['é', 'z', 'e', 'a'].sort((x, y) => x.localeCompare(y)));
const bs = (a, t) => { let lo = 0, hi = a.length - 1; while (lo <= hi) { const mid = (lo + hi) >>> 1; if (a[mid] === t) return mid; a[mid] < t ? lo = mid + 1 : hi = mid - 1; } return -1; };
console.log(bs([1, 3, 5, 7, 9, 11], 7), bs([1, 3], 4));
const big = Array.from({ length: 2000 }, (_, i) => (i * 7919) % 2003); const sorted = merge(big);
console.log(sorted.every((x, i) => !i || sorted[i - 1] <= x), sorted.slice(0, 5), sorted.at(-1));
console.log(data.with(0, 'w'), data.toSpliced(1, 3, 'x'), data.findLast(x => x > 30), data.findLastIndex(x => x > 100), data.copyWithin(0, 8), data.fill(7, 8));
