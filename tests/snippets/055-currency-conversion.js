const rates = { USD: 1, EUR: 0.92, GBP: 0.79, JPY: 151.37, INR: 83.12 };
const convert = (amount, from, to) => {
  if (!(from in rates)) throw new Error(`Unknown currency: ${from}`);
  if (!rates[to]) throw new Error(`Unknown currency: ${to}`);
  return amount / rates[from] * rates[to];
};
for (const [amt, f, t] of [[100, 'USD', 'EUR'], [250, 'GBP', 'JPY'], [1e6, 'INR', 'USD'], [0.1, 'EUR', 'GBP']]) console.log(`${amt} ${f} = ${convert(amt, f, t).toFixed(2)} ${t}`, convert(amt, f, t));
try { convert(1, 'USD', 'XYZ'); } catch ({ message, name }) { console.log({ name, message }); }
const round = (n, d = 2) => Number(Math.round(n + 'e' + d) + 'e-' + d); console.log(round(1.005), round(2.345, 1), round(-1.5, 0), round(1234.5678, -2));
const cents = [19.99, 5.01, 0.1, 0.2].map((x) => Math.round(x * 100)); console.log(cents.reduce((a, b) => a + b) / 100, [19.99, 5.01, 0.1, 0.2].reduce((a, b) => a + b));
const compound = (p, r, n, y) => p * (1 + r / n) ** (n * y); for (const y of [1, 5, 10, 30]) console.log(`year ${y}:`.padEnd(9), compound(1000, 0.05, 12, y).toFixed(2).padStart(9));
const pmt = (p, r, n) => p * (r / 12) / (1 - (1 + r / 12) ** -n); const m = pmt(250000, 0.045, 360); console.log(m.toFixed(2), (m * 360 - 250000).toFixed(2), m);
let bal = 1000; const sched = []; for (let k = 1; bal > 0.005 && k < 20; k++) { const i = bal * 0.01, pay = Math.min(300, bal + i); bal = bal + i - pay; sched.push({ k, interest: +i.toFixed(2), pay: +pay.toFixed(2), bal: +bal.toFixed(2) }); } console.table(sched);
const split = (total, n) => { const base = Math.floor(total / n), extra = total % n; return Array.from({ length: n }, (_, i) => base + (i < extra ? 1 : 0)); }; console.log(split(100, 3), split(10, 4)); console.log(Object.entries(rates).map(([c, r]) => `${c}:${r}`).join('; '));
