const dur = ms => { const p = [['day', 864e5], ['hour', 36e5], ['minute', 6e4], ['second', 1e3]]; const out = []; for (const [u, s] of p) { const v = Math.floor(ms / s); ms %= s; if (v) out.push(new Intl.NumberFormat('en', { style: 'unit', unit: u, unitDisplay: 'long' }).format(v)); } return new Intl.ListFormat('en', { style: 'narrow', type: 'unit' }).format(out) || '0 seconds'; };
for (const ms of [0, 1000, 61000, 3600000, 90061000, 1e9]) console.log(dur(ms));
const clock = s => [s / 3600 | 0, (s / 60 | 0) % 60, s % 60].map(v => v.toLocaleString('en-US', { minimumIntegerDigits: 2, useGrouping: false })).join(':');
console.log(clock(3725), clock(59), clock(360000));
