const inventory = [
  { sku: 'KB-101', name: 'Mechanical Keyboard', stock: 14, reorder: 20, cost: 45.5 },
  { sku: 'MS-220', name: 'Wireless Mouse', stock: 120, reorder: 50, cost: 12.25 },
  { sku: 'MN-300', name: '27" Monitor', stock: 3, reorder: 5, cost: 189.99 },
  { sku: 'CB-015', name: 'USB-C Cable', stock: 0, reorder: 100, cost: 2.1 },
];
const needsReorder = inventory.filter((i) => i.stock < i.reorder).map((i) => ({ ...i, order: i.reorder * 2 - i.stock }));
console.log('Items to reorder:', needsReorder.length);
needsReorder.forEach((item, idx) => {
  const { sku, name, order, cost } = item;
  console.log(`${String(idx + 1).padStart(2)}. [${sku}] ${name.padEnd(22, '.')} x${order} = $${(order * cost).toFixed(2)}`);
});
const value = inventory.reduce((sum, i) => sum + i.stock * i.cost, 0);
console.log('Inventory value:', value, '≈', Math.round(value * 100) / 100);
console.table(inventory, ['sku', 'stock']);
console.log(inventory.map((i) => i.stock).reduce((a, b) => Math.max(a, b)), inventory.some((i) => i.stock === 0), inventory.every((i) => i.cost > 1));
console.log(inventory);
