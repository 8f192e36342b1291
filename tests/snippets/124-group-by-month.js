const tx = [['2024-01-03', 120.5], ['2024-01-28', 80], ['2024-02-10', 45.25], ['2024-02-29', 300], ['2024-11-11', 9.99], ['2023-12-31', 1000]];
const fmt = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });
const groups = new Map();
for (const [d, v] of tx.sort((a, b) => a[0].localeCompare(b[0]))) {
  const k = fmt.format(new Date(d));
  groups.set(k, (groups.get(k) ?? 0) + v);
}
for (const [k, v] of groups) console.log(k.padEnd(15, '.') + v.toLocaleString('en-US', { minimumFractionDigits: 2 }).padStart(10, '.'));
console.log(groups);
