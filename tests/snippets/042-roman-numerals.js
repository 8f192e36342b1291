function toRoman(num) {
  if (!Number.isInteger(num) || num <= 0 || num > 3999) throw new RangeError(`Cannot convert ${num} to a Roman numeral`);
  const table = [['M', 1000], ['CM', 900], ['D', 500], ['CD', 400], ['C', 100], ['XC', 90], ['L', 50], ['XL', 40], ['X', 10], ['IX', 9], ['V', 5], ['IV', 4], ['I', 1]];
  let out = '';
  for (const [sym, val] of table) while (num >= val) { out += sym; num -= val; }
  return out;
}
const fromRoman = (s) => [...s].reduce((acc, ch, i, arr) => {
  const v = { I: 1, V: 5, X: 10, L: 50, C: 100, D: 500, M: 1000 };
  return acc + (v[ch] < (v[arr[i + 1]] ?? 0) ? -v[ch] : v[ch]);
}, 0);
for (const n of [1, 4, 9, 14, 40, 90, 400, 1994, 2024, 3999]) console.log(n, toRoman(n), fromRoman(toRoman(n)) === n);
for (const bad of [0, -1, 4000, 1.5, 'x']) {
  try { toRoman(bad); } catch (e) { console.log(e.name, '-', e.message); }
}
