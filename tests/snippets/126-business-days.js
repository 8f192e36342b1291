const holidays = new Set(['2024-07-04', '2024-12-25']);
function addBusinessDays(d, n) { const r = new Date(d); while (n > 0) { r.setDate(r.getDate() + 1); if (r.getDay() % 6 && !holidays.has(r.toISOString().slice(0, 10))) n--; } return r; }
for (const s of ['2024-07-01', '2024-07-03', '2024-12-20']) console.log(s, addBusinessDays(s, 5).toLocaleDateString(undefined, { weekday: 'short', month: 'short', day: '2-digit' }));
console.log(new Date(2024, 0, 31).toString(), new Date(2024, 1, 31).toString());
console.log(new Date('2024-03-10').getTimezoneOffset(), new Date(2020, 5).toJSON());
console.log([new Date('2024-01-01'), new Date('x')]);
