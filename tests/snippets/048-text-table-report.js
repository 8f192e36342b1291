const rows = [
  ['Region', 'Q1', 'Q2', 'Growth'],
  ['North America', 1250000.5, 1310000, null],
  ['EMEA', 980000, 875500.25, null],
  ['APAC', 430000, 612345.678, null],
];
rows.slice(1).forEach((r) => { r[3] = ((r[2] - r[1]) / r[1]) * 100; });
const fmt = (v) => typeof v === 'number' ? v.toFixed(1).replace(/\B(?=(\d{3})+(?!\d))/g, ',') : v;
const cells = rows.map((r) => r.map(fmt));
const widths = cells[0].map((_, c) => Math.max(...cells.map((r) => r[c].length)));
const line = (l, m, r) => l + widths.map((w) => '─'.repeat(w + 2)).join(m) + r;
console.log(line('┌', '┬', '┐'));
cells.forEach((r, i) => {
  console.log('│' + r.map((v, c) => ' ' + (c && i ? v.padStart(widths[c]) : v.padEnd(widths[c])) + ' ').join('│') + '│');
  if (!i) console.log(line('├', '┼', '┤'));
});
console.log(line('└', '┴', '┘'));
const bar = (v, max, w = 30) => '▇'.repeat(Math.round(v / max * w)).padEnd(w, '·');
rows.slice(1).forEach(([n, , q2]) => console.log(n.padStart(14), bar(q2, 1310000), `${(q2 / 1e6).toFixed(2)}M`));
const wrap = (s, w) => s.split(' ').reduce((ls, word) => { const last = ls[ls.length - 1]; if ((last + ' ' + word).trim().length > w) ls.push(word); else ls[ls.length - 1] = (last + ' ' + word).trim(); return ls; }, ['']);
console.log(wrap('Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.', 28).join('\n'));
const center = (s, w) => s.padStart((w + s.length) >> 1).padEnd(w); console.log(`[${center('title', 21)}]`);
console.log(rows);
