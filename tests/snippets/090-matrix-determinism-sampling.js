function mulberry32(a) { return () => { a |= 0; a = (a + 0x6d2b79f5) | 0; let t = Math.imul(a ^ (a >>> 15), 1 | a); t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t; return ((t ^ (t >>> 14)) >>> 0) / 4294967296; }; }
const rng = mulberry32(12345);
console.log(Array.from({ length: 4 }, rng));
const shuffle = (a) => { a = [...a]; for (let i = a.length - 1; i > 0; i--) { const j = Math.floor(rng() * (i + 1)); [a[i], a[j]] = [a[j], a[i]]; } return a; };
console.log(shuffle([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), shuffle([...'abcdef']).join(''));
const dice = Array.from({ length: 600 }, () => 1 + Math.floor(rng() * 6)); const counts = dice.reduce((c, d) => (c[d]++, c), { 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0 }); console.log(counts);
const gauss = () => Math.sqrt(-2 * Math.log(1 - rng())) * Math.cos(2 * Math.PI * rng()); const g = Array.from({ length: 1000 }, gauss); console.log((g.reduce((a, b) => a + b) / 1000).toFixed(6), g.slice(0, 3).map((x) => x.toFixed(8)));
const weighted = (o) => { let r = rng() * Object.values(o).reduce((a, b) => a + b); for (const [k, w] of Object.entries(o)) if ((r -= w) < 0) return k; }; console.log(Array.from({ length: 12 }, () => weighted({ common: 70, rare: 25, epic: 5 })));
console.log(Math.random() >= 0 && Math.random() < 1, Math.random() !== Math.random(), typeof crypto.randomUUID());
