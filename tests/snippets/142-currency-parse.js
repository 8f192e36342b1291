const parse = s => { const neg = /^\(.*\)$|^-/.test(s.trim()); const v = parseFloat(s.replace(/[^0-9.]/g, '')); return neg ? -v : v; };
const inputs = ['$1,234.56', '(€99.90)', '-£5', '1 000 000', 'N/A', '¥12,345'];
for (const s of inputs) { const v = parse(s); console.log(s.padEnd(12), v, Number.isNaN(v) ? 'n/a' : v.toLocaleString('en-US', { style: 'currency', currency: 'USD', currencySign: 'accounting' })); }
const { format } = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
console.log(inputs.map(parse).filter(v => !isNaN(v)).map(format));
