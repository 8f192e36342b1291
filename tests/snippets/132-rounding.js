const r = (x, o) => new Intl.NumberFormat('en-US', o).format(x);
console.log([0.5, 1.5, 2.5, -0.5, -1.5].map(x => r(x, { maximumFractionDigits: 0 })).join(' '));
for (const roundingMode of ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven']) console.log(roundingMode, [1.25, 1.35, -1.25, 1.24, 1.26, 2.5].map(x => r(x, { maximumFractionDigits: 1, roundingMode })).join(' '));
console.log(r(1.005, { minimumFractionDigits: 2, maximumFractionDigits: 2 }), r(1.0049999, { maximumFractionDigits: 2 }), r(1234.5, { maximumSignificantDigits: 2 }), r(0.001234, { minimumSignificantDigits: 6 }));
console.log(r(3, { minimumIntegerDigits: 2 }), r(1e6, { useGrouping: false }), r(5.0, { style: 'currency', currency: 'USD', trailingZeroDisplay: 'stripIfInteger' }));
console.log(r(1.23, { roundingIncrement: 5, maximumFractionDigits: 2, minimumFractionDigits: 2 }));
