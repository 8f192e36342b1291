const data = [3, 7, 7, 2, 9, 15, 21, 8, 8, 7, 4, 1, 30, 12, 11];
const mean = data.reduce((a, b) => a + b) / data.length, sd = Math.sqrt(data.reduce((s, x) => s + (x - mean) ** 2, 0) / (data.length - 1));
console.log(`n=${data.length} mean=${mean.toFixed(3)} sd=${sd.toFixed(3)}`);
const bins = new Map(); for (const x of data) { const b = Math.floor(x / 5) * 5; bins.set(b, (bins.get(b) || 0) + 1); }
for (const [b, c] of [...bins].sort(([a], [z]) => a - z)) console.log(`${String(b).padStart(2)}-${String(b + 4).padStart(2)} ${'█'.repeat(c).padEnd(7)} ${(c / data.length).toLocaleString('en-US', { style: 'percent', minimumFractionDigits: 1 })}`);
console.log(new Intl.NumberFormat('en-US', { maximumSignificantDigits: 4 }).format(sd), new Intl.NumberFormat('en-US', { signDisplay: 'always' }).format(mean), new Intl.NumberFormat().format(Math.PI * 1e5));
