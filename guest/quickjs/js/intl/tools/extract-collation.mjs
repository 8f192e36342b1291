// Records the root collation order of ICU (as node 22 has it) for the scripts in RANGES. Writes ../data/collation.js:
// groups of characters with equal primary weight, in order; within a group, members in tertiary order with the strength that
// separates each from the one before it (2: accent, 3: case or variant).
import fs from 'node:fs';
import path from 'node:path';

const RANGES = [[0x9, 0xd], [0x20, 0x7e], [0xa0, 0x24f], [0x250, 0x2af], [0x2b0, 0x2ff], [0x370, 0x3ff], [0x400, 0x52f], [0x531, 0x58f], [0x5d0, 0x5f4], [0x609, 0x66f], [0x671, 0x6ff], [0x905, 0x939], [0x966, 0x96f], [0xe01, 0xe5b], [0x10d0, 0x10ff], [0x1100, 0x11ff], [0x1e00, 0x1eff], [0x2000, 0x200a], [0x2010, 0x2029], [0x2030, 0x205e], [0x2070, 0x209c], [0x20a0, 0x20c0], [0x2100, 0x218b], [0x2190, 0x23ff], [0x2460, 0x27bf], [0x2900, 0x2bff], [0x3001, 0x303f], [0x3041, 0x3096], [0x309b, 0x30ff], [0x3105, 0x312f], [0xfb00, 0xfb06], [0xff01, 0xffee], [0x1f300, 0x1f64f], [0x1f680, 0x1f6ff], [0x1f900, 0x1f9ff]];
const strong = new Intl.Collator('en', { sensitivity: 'variant' }).compare;
const primary = new Intl.Collator('en', { sensitivity: 'base' }).compare, accent = new Intl.Collator('en', { sensitivity: 'accent' }).compare;
const chars = [];
for (const [a, b] of RANGES) for (let c = a; c <= b; c++) {
  const s = String.fromCodePoint(c);
  if (s.normalize('NFD') !== s) continue; // made of others
  if (/\p{M}|\p{Cn}|\p{Cs}|\p{Co}/u.test(s)) continue;
  chars.push(s);
}
// characters that sort as a run of others, e.g. æ, ½, …: written as that run
const byText = new Map();
const expansions = [];
const plain = [];
for (const s of chars) {
  const nfkd = s.normalize('NFKD');
  if ([...nfkd].length > 1 && primary(s, nfkd) === 0) { expansions.push([s, nfkd]); continue; }
  plain.push(s);
}
const letters = plain.filter(s => /\p{L}/u.test(s) && s <= 'ʯ'), pairs = new Map();
for (const s of plain) {
  if (s <= '~' || !/\p{L}/u.test(s)) continue;
  // between which ASCII letters does it fall, and is it a pair?
  for (const a of 'abcdefghijklmnopqrstuvwxyz') { if (primary(s, a) > 0 && primary(s, a + 'zzz') < 0) for (const b of 'abcdefghijklmnopqrstuvwxyz') if (primary(s, a + b) === 0) pairs.set(s, a + b); }
}
const singles = plain.filter(s => !pairs.has(s));
singles.sort((a, b) => strong(a, b) || (a < b ? -1 : 1));
const groups = [];
let last;
for (const s of singles) {
  if (last === undefined || primary(last, s) !== 0) groups.push(s);
  else groups[groups.length - 1] += (accent(last, s) !== 0 ? '\u0001' : strong(last, s) !== 0 ? '\u0002' : '\u0003') + s;
  last = s;
}
for (const [s, t] of pairs) expansions.push([s, s.toLowerCase() === s ? t : t[0].toUpperCase() + t[1].toUpperCase()]);
// how an expansion differs from its run
const lines = expansions.map(([s, t]) => s + t + (accent(s, t) !== 0 ? '\u0001' : strong(s, t) !== 0 ? '\u0002' : ''));
// combining marks in secondary order
const marks = [];
for (let c = 0x300; c <= 0x36f; c++) { const m = String.fromCodePoint(c); if (m.normalize('NFD') === m && strong('a' + m, 'a') !== 0) marks.push(m); }
marks.sort((a, b) => strong('a' + a, 'a' + b) || (a < b ? -1 : 1));
const ignorable = [...Array(0x10000).keys()].map(c => String.fromCharCode(c)).filter(s => strong(s, '') === 0 && !/[\ud800-\udfff\ufdd0-\ufdef]/.test(s) && !/\p{Cn}/u.test(s)).join('');
const isVariable = s => new Intl.Collator('en', { ignorePunctuation: true }).compare('a' + s + 'b', 'ab') === 0;
let variable = 0;
while (isVariable(groups[variable][0])) variable++;
fs.writeFileSync(path.join(import.meta.dirname, '../data/collation.js'), `// The root collation order of common scripts, recorded from node 22 (ICU 78) by ../tools/extract-collation.mjs, which says how to read it.
export const ORDER = ${JSON.stringify(groups.join('\u0000'))};
export const EXPANSIONS = ${JSON.stringify(lines.join('\u0000'))};
export const MARKS = ${JSON.stringify(marks.join(''))};
export const IGNORABLE = ${JSON.stringify(ignorable)};
/** How many groups are spaces and punctuation: \`ignorePunctuation\` skips them. */
export const VARIABLE = ${variable};
`);
console.log(groups.length, expansions.length, marks.length, ignorable.length, variable, groups.slice(variable - 2, variable + 3));
