const usd = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 0 });
console.log(usd.formatRange(3, 5), usd.formatRange(2.9, 3.1), usd.formatRange(-5, 10));
console.log(new Intl.NumberFormat('en-US').formatRange(1000, 2500), new Intl.NumberFormat('en-US', { notation: 'compact' }).formatRange(1200, 4500000));
console.log(new Intl.PluralRules('en').selectRange(1, 2));
console.log(new Intl.NumberFormat('en-US', { useGrouping: 'min2' }).format(1234), new Intl.NumberFormat('en-US', { useGrouping: 'min2' }).format(12345), new Intl.NumberFormat('en-IN').format(12345678));
