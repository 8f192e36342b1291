const data = { users: [{ id: 1, name: 'Ann', joined: '2023-04-01', spend: [10.5, 20, null] }, { id: 2, name: 'Bo', joined: '2024-01-15', spend: [] }, { id: 3, name: 'Cy', joined: 'n/a', spend: [99.99] }] };
class Report {
  static #seq = 0;
  constructor(rows) { this.rows = rows; this.id = `R${String(++Report.#seq).padStart(3, '0')}`; }
  *lines() { for (const { name, total, days } of this.rows) yield `${name.padEnd(6)}|${total.toFixed(2).padStart(9)}|${(days ?? '-').toString().padStart(6)}`; }
  toString() { return [this.id, ...this.lines()].join('\n'); }
  get [Symbol.toStringTag]() { return 'Report'; }
}
const asOf = Date.UTC(2024, 5, 1);
const enrich = async (u) => { await Promise.resolve(); const t = Date.parse(u.joined); return { ...u, total: u.spend.reduce((s, x) => s + (x ?? 0), 0), days: Number.isNaN(t) ? null : Math.floor((asOf - t) / 864e5) }; };
(async () => {
  const rows = await Promise.all(data.users.map(enrich));
  const report = new Report(rows);
  console.log(`${report}`); console.log(report); console.log(Object.prototype.toString.call(report));
  const { total, count } = rows.reduce((a, r) => ({ total: a.total + r.total, count: a.count + 1 }), { total: 0, count: 0 }); console.log({ total, count, avg: total / count });
  const groups = Map.groupBy(rows, (r) => r.total > 50 ? 'big' : r.total > 0 ? 'small' : 'none'); console.log(groups); for (const [k, v] of groups) console.log(k.toUpperCase(), v.map((r) => r.name));
  try { rows[9].name; } catch (e) { console.log(`${e.name}: ${e.message}`); } try { rows.find((r) => r.id === 7).spend.push(1); } catch (e) { console.log(`${e.name}: ${e.message}`); }
  console.log(JSON.stringify(rows, (k, v) => (k === 'spend' ? undefined : v), 2)); console.table(rows, ['name', 'total', 'days']); console.log(structuredClone(rows[0]), rows.map((r) => r.spend));
  console.group('Summary'); console.log('users:', rows.length); console.group(); console.log({ top: rows.toSorted((a, b) => b.total - a.total)[0].name, flags: new Set(rows.map((r) => r.days > 300)) }); console.groupEnd(); console.groupEnd(); console.log('%s finished in %d steps', report.id, 5);
})().finally(() => { console.log('end'); process.exitCode = rowsLeft ? 0 : 2; }).catch((e) => console.log('final', e.name, e.message));
const rowsLeft = 0;
