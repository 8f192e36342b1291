const db = Array.from({ length: 47 }, (_, i) => ({ id: i + 1, title: `Post ${String.fromCharCode(65 + (i * 7) % 26)}${i}`, tags: ['js', 'py', 'go'].filter((_, k) => (i + k) % 3 === 0 || i % 5 === k), score: (i * 37) % 101 }));
function query({ page = 1, size = 10, sort = 'id', desc = false, where = () => true } = {}) {
  const hits = db.filter(where).sort((a, b) => (a[sort] > b[sort] ? 1 : a[sort] < b[sort] ? -1 : 0) * (desc ? -1 : 1));
  const pages = Math.ceil(hits.length / size);
  return { meta: { total: hits.length, page, pages, hasNext: page < pages, hasPrev: page > 1 }, items: hits.slice((page - 1) * size, page * size) };
}
console.log(query({ page: 5 })); console.log(query({ size: 3, sort: 'score', desc: true }).items); console.log(query({ where: (p) => p.tags.includes('go') && p.score > 80, size: 50 }).meta);
const tagIndex = db.reduce((ix, p) => { for (const t of p.tags) (ix[t] ||= []).push(p.id); return ix; }, {}); console.log(tagIndex); console.log(Object.entries(tagIndex).map(([t, ids]) => [t, ids.length]));
const fuzzy = (q, s) => { let i = 0; for (const c of s.toLowerCase()) if (c === q[i]) i++; return i === q.length; }; console.log(db.filter((p) => fuzzy('pz', p.title)).map((p) => p.title), db.find((p) => p.score === 100)?.title, db.findIndex((p) => p.id > 45));
const chunk = (a, n) => a.length ? [a.slice(0, n), ...chunk(a.slice(n), n)] : []; console.log(chunk([1, 2, 3, 4, 5, 6, 7], 3)); const uniqBy = (a, f) => [...new Map(a.map((x) => [f(x), x])).values()]; console.log(uniqBy(db, (p) => p.tags.join()).map((p) => p.tags)); const [hi, lo] = db.reduce(([h, l], p) => p.score > 50 ? [h + 1, l] : [h, l + 1], [0, 0]); console.log(hi, lo);
const zip = (...as) => as[0].map((_, i) => as.map((a) => a[i])); console.log(zip([1, 2], ['a', 'b'], [true, false])); const countBy = (a, f) => a.reduce((m, x) => { const k = f(x); m[k] = -~m[k]; return m; }, {}); console.log(countBy(db, (p) => Math.floor(p.score / 25) * 25)); console.log(db.slice(0, 4));
