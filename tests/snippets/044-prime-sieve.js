function sieve(limit) {
  const composite = new Uint8Array(limit + 1);
  const primes = [];
  for (let i = 2; i <= limit; i++) {
    if (composite[i]) continue;
    primes.push(i);
    for (let j = i * i; j <= limit; j += i) composite[j] = 1;
  }
  return primes;
}
const primes = sieve(100);
console.log(primes);
console.log(primes.length, primes.reduce((a, b) => a + b));
const factor = (n) => { const f = {}; for (let p = 2; p * p <= n; p++) while (n % p === 0) { f[p] = (f[p] || 0) + 1; n /= p; } if (n > 1) f[n] = 1; return f; };
console.log(factor(360), factor(97), factor(1001), factor(2 ** 20));
const gcd = (a, b) => b ? gcd(b, a % b) : a;
const lcm = (...n) => n.reduce((a, b) => a * b / gcd(a, b));
console.log(gcd(1071, 462), lcm(4, 6, 10), lcm(...Array.from({ length: 20 }, (_, i) => i + 1)));
console.log(sieve(200000).length, sieve(200000).slice(-3));
const twins = primes.filter((p, i) => primes[i + 1] - p === 2).map((p) => [p, p + 2]);
console.log(twins);
const perfect = []; for (let n = 2; n < 10000; n++) { let s = 1; for (let d = 2; d * d <= n; d++) if (n % d === 0) s += d + (d * d === n ? 0 : n / d); if (s === n) perfect.push(n); }
console.log('perfect', perfect);
