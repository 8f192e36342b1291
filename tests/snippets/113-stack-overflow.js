function depth(n) { return 1 + depth(n + 1); }
try { depth(0); } catch (e) { console.log(e instanceof RangeError, e.name, e.message); }
const nested = '['.repeat(5) + ']'.repeat(5);
console.log(JSON.stringify(JSON.parse(nested)));
