function factorial(n) { return n <= 1n ? 1n : n * factorial(n - 1n); }
console.log(factorial(30n).toLocaleString());
console.log(factorial(30n).toLocaleString('en-US').split(',').length);
console.log((2n ** 128n).toLocaleString('en-US', { style: 'currency', currency: 'EUR' }));
console.log(Number.MAX_SAFE_INTEGER.toLocaleString(), Number.MAX_VALUE.toLocaleString().length);
console.log((1e21).toLocaleString(), (1.5e300).toLocaleString().slice(0, 20), (1e-7).toLocaleString(), (-0).toLocaleString(), (NaN).toLocaleString(), (-Infinity).toLocaleString());
console.log(new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 }).format(123456789n));
console.log(new Intl.NumberFormat('en-US').format('12345678901234567890.123456'));
try { console.log(1n + 1); } catch (e) { console.log(e.name + ': ' + e.message); }
