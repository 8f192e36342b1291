const amount = 1234567.891;
for (const c of ['USD', 'EUR', 'GBP', 'JPY', 'INR', 'CAD', 'AUD', 'CHF', 'CNY', 'KRW', 'BRL', 'MXN', 'KWD', 'SEK', 'BTC']) {
  console.log(c, JSON.stringify(new Intl.NumberFormat('en-US', { style: 'currency', currency: c }).format(amount)));
}
const o = { style: 'currency', currency: 'USD' };
console.log(new Intl.NumberFormat('en-US', { ...o, currencyDisplay: 'code' }).format(12.5));
console.log(new Intl.NumberFormat('en-US', { ...o, currencyDisplay: 'name' }).format(1), new Intl.NumberFormat('en-US', { ...o, currencyDisplay: 'name' }).format(12.5));
console.log(new Intl.NumberFormat('en-US', { ...o, currencySign: 'accounting' }).format(-5), new Intl.NumberFormat('en-US', { ...o, signDisplay: 'always' }).format(5));
console.log(new Intl.NumberFormat('en-US', { ...o, currency: 'CAD', currencyDisplay: 'narrowSymbol' }).format(5));
