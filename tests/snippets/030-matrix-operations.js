const A = [[1, 2, 3], [4, 5, 6]], B = [[7, 8], [9, 10], [11, 12]];
const mul = (a, b) => a.map(r => b[0].map((_, j) => r.reduce((s, x, k) => s + x * b[k][j], 0)));
const T = m => m[0].map((_, j) => m.map(r => r[j]));
console.log(mul(A, B)); console.log(T(A)); console.log(mul(T(A), A));
const det = m => m.length === 1 ? m[0][0] : m[0].reduce((s, x, j) => s + (-1) ** j * x * det(m.slice(1).map(r => r.filter((_, c) => c !== j))), 0);
console.log(det([[2, -3, 1], [2, 0, -1], [1, 4, 5]]), det([[1, 2], [2, 4]]));
const identity = n => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => +(i === j)));
console.log(identity(3)); console.table(identity(3)); console.table(A); console.table([[1, 'a'], [2, 'b']], ['1']);
console.table([{ x: 1, y: 'two' }, { y: 3, z: null }]); console.table(new Map([['a', { v: 1 }], ['b', 2]])); console.table(new Set(['q', 1]));
console.table(5); console.table([]); console.table({ r1: { c: 1 }, r2: { c: [1, 2] } }); console.table([1, 'x', undefined]); console.table([{ a: { b: { c: 1 } }, f() {} }]);
const spiral = m => { const out = []; m = m.map(r => [...r]); while (m.length) { out.push(...m.shift()); m = T(m.length ? m : [[]]).reverse(); if (!m[0]?.length) break; } return out; };
console.log(spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]));
function gauss(a, b) { const n = a.length, m = a.map((r, i) => [...r, b[i]]); for (let i = 0; i < n; i++) { let p = i; for (let r = i + 1; r < n; r++) if (Math.abs(m[r][i]) > Math.abs(m[p][i])) p = r; [m[i], m[p]] = [m[p], m[i]]; for (let r = 0; r < n; r++) if (r !== i) { const f = m[r][i] / m[i][i]; for (let c = i; c <= n; c++) m[r][c] -= f * m[i][c]; } } return m.map((r, i) => +(r[n] / r[i]).toFixed(6)); }
console.log(gauss([[2, 1, -1], [-3, -1, 2], [-2, 1, 2]], [8, -11, -3]));
