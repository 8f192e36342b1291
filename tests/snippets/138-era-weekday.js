const p = (d, o) => console.log(JSON.stringify(new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', ...o }).format(d)));
const d = new Date(Date.UTC(2024, 4, 6));
p(d, { era: 'short' }); p(d, { era: 'long', year: 'numeric' }); p(new Date(Date.UTC(-43, 2, 15)), { era: 'short', year: 'numeric', month: 'long', day: 'numeric' });
for (const w of ['long', 'short', 'narrow']) p(d, { weekday: w });
for (const m of ['numeric', '2-digit', 'short', 'long', 'narrow']) { p(d, { month: m }); p(d, { month: m, day: 'numeric' }); p(d, { year: '2-digit', month: m }); p(d, { weekday: 'short', year: 'numeric', month: m, day: '2-digit' }); }
p(d, { year: 'numeric' }); p(d, { day: 'numeric' }); p(d, { weekday: 'long', hour: 'numeric' }); p(d, { dateStyle: 'full', timeStyle: 'short' }); p(d, { month: 'long', day: 'numeric', hour: '2-digit', minute: '2-digit' });
