const people = [
  { name: 'Zoë Quinn', dept: 'R&D', salary: 125000, start: '2019-03-18' },
  { name: 'Ann Lee', dept: 'Sales', salary: 68000.5, start: '2021-11-01' },
  { name: 'Élodie Martin', dept: 'R&D', salary: 99000, start: '2020-06-15' },
  { name: 'bob stone', dept: 'Sales', salary: 71000, start: '2018-01-08' },
];
people.sort((a, b) => a.dept.localeCompare(b.dept) || a.name.localeCompare(b.name));
console.table(people.map(p => ({ name: p.name, salary: p.salary.toLocaleString('en-US', { style: 'currency', currency: 'USD' }), start: new Date(p.start).toLocaleDateString('en-US', { year: 'numeric', month: 'short', day: '2-digit' }) })));
const by = Object.groupBy(people, p => p.dept);
for (const d in by) console.log(d, by[d].length, (by[d].reduce((s, p) => s + p.salary, 0) / by[d].length).toLocaleString(undefined, { maximumFractionDigits: 1 }));
