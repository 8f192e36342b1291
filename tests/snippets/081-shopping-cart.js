class Cart {
  constructor(taxRate = 0.08) { this.taxRate = taxRate; this.lines = new Map(); this.coupons = []; }
  add(sku, price, qty = 1) {
    const line = this.lines.get(sku) ?? { sku, price, qty: 0 };
    line.qty += qty;
    this.lines.set(sku, line);
    return this;
  }
  coupon(code, fn) { this.coupons.push({ code, fn }); return this; }
  totals() {
    const subtotal = [...this.lines.values()].reduce((s, l) => s + l.price * l.qty, 0);
    const discount = this.coupons.reduce((d, c) => d + c.fn(subtotal - d, this), 0);
    const tax = (subtotal - discount) * this.taxRate;
    return { subtotal, discount, tax, total: subtotal - discount + tax };
  }
}
const cart = new Cart().add('apple', 0.5, 6).add('bread', 2.75).add('apple', 0.5, 4).coupon('TENOFF', (s) => s * 0.1).coupon('FLAT1', () => 1);
console.log(cart);
console.log(cart.totals());
console.log(Object.fromEntries(Object.entries(cart.totals()).map(([k, v]) => [k, v.toFixed(2)])));
for (const { sku, qty, price } of cart.lines.values()) console.log(`${qty} x ${sku} @ $${price} = $${qty * price}`);
