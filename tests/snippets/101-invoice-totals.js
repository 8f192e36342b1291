// Formats an invoice with quantities, unit prices, tax and a total.
const items = [
  { name: 'Widget', qty: 12, price: 19.99 },
  { name: 'Gadget', qty: 3, price: 149.5 },
  { name: 'Cable (2m)', qty: 40, price: 3.25 },
];
const usd = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
const pct = new Intl.NumberFormat('en-US', { style: 'percent', minimumFractionDigits: 1 });
let subtotal = 0;
for (const it of items) {
  const line = it.qty * it.price;
  subtotal += line;
  console.log(`${it.name.padEnd(12)} ${String(it.qty).padStart(4)} x ${usd.format(it.price).padStart(9)} = ${usd.format(line).padStart(11)}`);
}
const taxRate = 0.0825;
console.log('Subtotal:', usd.format(subtotal));
console.log(`Tax (${pct.format(taxRate)}):`, usd.format(subtotal * taxRate));
console.log('Total:', usd.format(subtotal * (1 + taxRate)));
console.log('Refund:', usd.format(-12.5));
