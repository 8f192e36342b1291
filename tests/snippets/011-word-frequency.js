const text = `It was the best of times, it was the worst of times, it was the age of wisdom,
it was the age of foolishness, it was the epoch of belief, it was the epoch of incredulity`;
const words = text.toLowerCase().match(/\b[a-z']+\b/g);
const freq = new Map();
for (const w of words) freq.set(w, (freq.get(w) ?? 0) + 1);
const top = [...freq].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, 8);
console.log(top);
console.log(Object.fromEntries(top));
const max = top[0][1];
for (const [word, n] of top) console.log(word.padStart(10), '█'.repeat(Math.round((n / max) * 20)), n);
console.log('unique:', freq.size, 'total:', words.length, 'avg length:', (words.join('').length / words.length).toFixed(3));
console.log(freq);
