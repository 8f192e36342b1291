const order = { id: 17, lines: undefined };
function total(o) { return o.lines.map(l => l.price).reduce((a, b) => a + b, 0); }
try { total(order); } catch (e) { console.log('caught:', e.message); }
console.log(new Date(Date.UTC(2024, 0, 1)).toLocaleDateString());
process.exitCode = 3;
