const fact = n => n <= 1n ? 1n : n * fact(n - 1n);
console.log(fact(25n), fact(50n).toString().length);
const fib = n => { let [a, b] = [0n, 1n]; while (n-- > 0) [a, b] = [b, a + b]; return a; };
console.log(fib(100), String(fib(300)));
console.log(2n ** 128n, -(2n ** 64n), 7n / 2n, -7n / 2n, -7n % 3n, 5n & 3n, 5n | 8n, 5n ^ 1n, ~5n, 1n << 70n, -1n >> 3n);
console.log(BigInt('0xff'), BigInt(' 42 '), BigInt(true), BigInt(2 ** 60), typeof 1n, 1n == 1, 1n === 1, 2n > 1, 0n ? 't' : 'f');
console.log(BigInt.asUintN(8, 257n), BigInt.asIntN(8, 255n), (123n).toString(16), parseInt('123n'), Number(2n ** 60n), [3n, 1n, 2n, 10n].sort(), [3n, 1n, 2, 10n].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)));
const modpow = (b, e, m) => { let r = 1n; b %= m; while (e > 0n) { if (e & 1n) r = (r * b) % m; b = (b * b) % m; e >>= 1n; } return r; };
console.log(modpow(3n, 200n, 1000000007n), modpow(2n, 1000n, 997n));
for (const f of [() => 1n + 1, () => BigInt(1.5), () => BigInt('abc'), () => 5n / 0n, () => 2n ** -1n, () => Math.max(1n), () => +1n, () => BigInt(undefined), () => 1n >>> 0n]) {
  try { console.log(f()); } catch (e) { console.log(e.name + ': ' + e.message); }
}
const isPrime = n => { if (n < 2n) return false; for (let i = 2n; i * i <= n; i++) if (n % i === 0n) return false; return true; };
console.log([2n, 91n, 97n, 7919n, 1000003n].map(isPrime), { total: 10n ** 20n, list: [1n] });
console.log((12345678901234567890n).toLocaleString('en-US'));
