const rows = [
  ['North', 1204500.5, 0.1234, 17], ['South', 98760, -0.051, 3], ['East', 0, 0, 0], ['West', 12345678.9, 1.5, 240],
];
const money = v => v.toLocaleString('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 0 });
const pc = v => v.toLocaleString('en-US', { style: 'percent', signDisplay: 'exceptZero', maximumFractionDigits: 1 });
console.log('| Region | Revenue | Change | Deals |');
console.log('|---|---:|---:|---:|');
for (const [r, rev, ch, n] of rows) console.log(`| ${r} | ${money(rev)} | ${pc(ch)} | ${n.toLocaleString()} |`);
const total = rows.reduce((s, r) => s + r[1], 0);
console.log(`| **Total** | ${money(total)} | | |`);
console.log(Object.fromEntries(rows.map(r => [r[0], money(r[1])])));
