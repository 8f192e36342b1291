const prices = [['2024-01-02', 187.15], ['2024-01-03', 184.22], ['2024-01-04', 181.91], ['2024-01-05', 181.18], ['2024-01-08', 185.56], ['2024-01-09', 185.14]];
const f2 = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const day = new Intl.DateTimeFormat('en-US', { weekday: 'short', month: 'numeric', day: 'numeric', timeZone: 'UTC' });
prices.forEach(([d, p], i) => { const win = prices.slice(Math.max(0, i - 2), i + 1).map(x => x[1]); const avg = win.reduce((a, b) => a + b) / win.length; const prev = i ? prices[i - 1][1] : p; console.log(day.format(new Date(d)).padEnd(10), f2.format(p), f2.format(avg), ((p - prev) / prev).toLocaleString('en-US', { style: 'percent', signDisplay: 'always', minimumFractionDigits: 2 })); });
