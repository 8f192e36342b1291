const orders = [
  { id: 'A-1', customer: 'zoe', items: [{ sku: 'x', n: 2 }, { sku: 'y', n: 1 }], placed: '2024-03-02' },
  { id: 'A-2', customer: 'adam', items: [{ sku: 'x', n: 5 }], placed: '2024-01-15' },
  { id: 'A-3', customer: 'zoe', items: [], placed: '2024-02-20' },
  { id: 'A-4', customer: 'mia', items: [{ sku: 'z', n: 12 }, { sku: 'x', n: 1 }, { sku: 'q', n: 3 }], placed: '2024-02-21' },
];
const grouped = new Map();
for (const o of orders) {
  if (!grouped.has(o.customer)) grouped.set(o.customer, []);
  grouped.get(o.customer).push(o);
}
console.log(grouped);
const summary = [...grouped].map(([customer, list]) => ({
  customer,
  orders: list.length,
  units: list.flatMap(o => o.items).reduce((n, i) => n + i.n, 0),
  first: list.map(o => o.placed).sort()[0],
})).sort((a, b) => b.units - a.units || a.customer.localeCompare(b.customer));
console.log(summary);
console.dir(orders, { depth: null });
