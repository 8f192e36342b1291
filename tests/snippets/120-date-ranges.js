const f = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', year: 'numeric', timeZone: 'UTC' });
const day = (y, m, d, h = 0) => new Date(Date.UTC(y, m - 1, d, h));
console.log(JSON.stringify(f.formatRange(day(2024, 1, 5), day(2024, 1, 9))));
console.log(JSON.stringify(f.formatRange(day(2024, 1, 5), day(2024, 3, 9))));
console.log(JSON.stringify(f.formatRange(day(2023, 12, 30), day(2024, 1, 2))));
console.log(JSON.stringify(f.formatRange(day(2024, 1, 5), day(2024, 1, 5))));
const t = new Intl.DateTimeFormat('en-US', { hour: 'numeric', minute: 'numeric', timeZone: 'UTC' });
console.log(JSON.stringify(t.formatRange(day(2024, 1, 5, 9), day(2024, 1, 5, 11))), JSON.stringify(t.formatRange(day(2024, 1, 5, 9), day(2024, 1, 5, 17))));
