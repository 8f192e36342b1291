for (const notation of ['scientific', 'engineering']) {
  const f = new Intl.NumberFormat('en-US', { notation, maximumFractionDigits: 2 });
  console.log([0, 1, 9.999, 12345, 0.000123, -98765432, 6.02214076e23].map(x => f.format(x)).join(' '));
}
console.log((0.1 + 0.2).toFixed(20), (1.005).toFixed(2), (1e21).toFixed(2), (123.456).toPrecision(4), (0.00001).toPrecision(1), (1234.5678).toExponential(2));
console.log((255).toString(16), (0.5).toString(2), (-255).toString(36), parseFloat('3.14abc'), Number(''), Number('0x1f'), parseInt('101', 2));
