console.log([1234.5, new Date(Date.UTC(2024, 0, 1)), 'x', null, undefined, 10n ** 6n].toLocaleString());
console.log([1e3, 2e6].toLocaleString('en-US', { style: 'currency', currency: 'GBP' }));
console.log(new Float64Array([1234.567, 1e6]).toLocaleString());
console.log({ a: 1 }.toLocaleString(), true.toLocaleString());
