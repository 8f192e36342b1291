const d = new Date(Date.UTC(2024, 6, 4, 15, 7, 9, 42));
const pad = (n, w = 2) => String(n).padStart(w, '0');
const formats = {
  iso: d.toISOString(), date: `${d.getUTCFullYear()}-${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`, time: [d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()].map((n) => pad(n)).join(':'), us: `${d.getMonth() + 1}/${d.getDate()}/${d.getFullYear()}`,
  twelve: `${d.getHours() % 12 || 12}:${pad(d.getMinutes())} ${d.getHours() < 12 ? 'AM' : 'PM'}`, epoch: d.getTime(), unix: Math.floor(d / 1000), day: d.getDay(), json: JSON.stringify(d), tz: d.getTimezoneOffset(),
};
console.log(formats);
console.log(d.toLocaleDateString('en-US'), '|', d.toLocaleTimeString('en-US'), '|', d.toLocaleString('en-US'), '|', d.toLocaleDateString('en-US', { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }));
console.log(d.toString(), d.toDateString(), d.toUTCString(), d.valueOf() === +d, `${d}`.length);
const strftime = (f, t) => f.replace(/%([YmdHMSjyBbAa%])/g, (_, c) => ({ Y: t.getUTCFullYear(), m: pad(t.getUTCMonth() + 1), d: pad(t.getUTCDate()), H: pad(t.getUTCHours()), M: pad(t.getUTCMinutes()), S: pad(t.getUTCSeconds()), y: pad(t.getUTCFullYear() % 100), j: pad(Math.floor((t - Date.UTC(t.getUTCFullYear(), 0, 0)) / 864e5), 3), B: t.toLocaleString('en', { month: 'long' }), b: t.toLocaleString('en', { month: 'short' }), A: t.toLocaleString('en', { weekday: 'long' }), a: t.toLocaleString('en', { weekday: 'short' }), '%': '%' })[c]); console.log(strftime('%A %d %B %Y (%b %a) %H:%M:%S day %j 100%% %y', d));
const ord = (n) => n + (['th', 'st', 'nd', 'rd'][(n % 100 >> 3) ^ 1 && n % 10] || 'th'); console.log([1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ord));
const weeks = []; for (let t = new Date('2024-02-26T00:00:00Z'); t < new Date('2024-03-20'); t.setUTCDate(t.getUTCDate() + 7)) weeks.push(t.toISOString().slice(0, 10)); console.log(weeks); console.log(new Date('2024-03-10T02:30:00').toISOString(), new Date(2024, 2, 31, 24).toISOString(), new Date('2024-01-01T00:00:00-05:30').getTime(), new Date(d).setHours(0, 0, 0, 0), new Date(2024, 0, 0).getDate());
