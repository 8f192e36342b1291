const nf = new Intl.NumberFormat('en-US', { notation: 'compact' });
const nf1 = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
const long = new Intl.NumberFormat('en-US', { notation: 'compact', compactDisplay: 'long' });
for (const n of [0, 7, 12.345, 999, 1000, 1234, 9999, 12345, 999499, 999500, 1e6, 1.5e6, 23456789, 1.25e9, 7.2e12, 1e15, 1e18, -4321]) {
  console.log(n, nf.format(n), nf1.format(n), long.format(n));
}
console.log(new Intl.NumberFormat('en-US', { notation: 'compact', style: 'currency', currency: 'USD' }).format(1250000));
