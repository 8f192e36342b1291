const rtf = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const always = new Intl.RelativeTimeFormat('en');
const narrow = new Intl.RelativeTimeFormat('en', { style: 'narrow' });
function ago(from, to) {
  const s = Math.round((to - from) / 1000);
  const steps = [['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
  for (const [unit, size] of steps) if (Math.abs(s) >= size || unit === 'second') return rtf.format(-Math.floor(s / size), unit);
}
const now = Date.UTC(2024, 5, 15, 12);
for (const s of [0, 5, 59, 60, 3600, 7300, 86400, 172800, 604800, 1209600, 2592000, 31536000, 90000000]) console.log(ago(now - s * 1000, now));
for (const u of ['day', 'weeks', 'quarter', 'year']) console.log(rtf.format(-1, u), '|', rtf.format(0, u), '|', rtf.format(1, u), '|', always.format(-1, u), '|', always.format(2.5, u), '|', narrow.format(-3, u));
console.log(always.formatToParts(-1234.5, 'day'));
