const P = 250000, rate = 0.0599 / 12, n = 360;
const pay = P * rate / (1 - (1 + rate) ** -n);
const f = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
console.log('Monthly payment', f.format(pay));
let bal = P, interest = 0;
for (let m = 1; m <= n; m++) { const i = bal * rate; interest += i; bal -= pay - i; if (m % 60 === 0) console.log(String(m).padStart(3), f.format(Math.max(0, bal)).padStart(14), f.format(interest).padStart(14)); }
console.log((interest / P).toLocaleString(undefined, { style: 'percent', minimumFractionDigits: 2 }));
