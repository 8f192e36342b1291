const a = new Date('2024-01-31T10:00:00Z');
const addMonths = (d, n) => { const r = new Date(d); const day = r.getUTCDate(); r.setUTCMonth(r.getUTCMonth() + n, 1); r.setUTCDate(Math.min(day, new Date(Date.UTC(r.getUTCFullYear(), r.getUTCMonth() + 1, 0)).getUTCDate())); return r; };
for (let i = 0; i < 4; i++) console.log(addMonths(a, i).toISOString());
console.log(Math.round((new Date('2024-12-25') - new Date('2024-02-01')) / 864e5), 'days');
const week = d => { const t = new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate())); t.setUTCDate(t.getUTCDate() + 4 - (t.getUTCDay() || 7)); return Math.ceil(((t - Date.UTC(t.getUTCFullYear(), 0, 1)) / 864e5 + 1) / 7); };
console.log(['2024-01-01', '2021-01-03', '2020-12-31', '2026-07-04'].map(s => week(new Date(s))));
console.log(new Date(2024, 1, 29, 12, 30).toLocaleString(), '|', a.toLocaleDateString(undefined, { month: 'short', day: 'numeric' }));
console.log(new Date(8.64e15).toISOString(), new Date(8.64e15 + 1).getTime(), new Date(-1).toISOString(), new Date(-62198755200000).toISOString());
console.log(typeof Date(), Date.length, new Date(2024, 0).valueOf(), +new Date('2024-06-01T00:00'), Date.parse('2024-06-01'));
