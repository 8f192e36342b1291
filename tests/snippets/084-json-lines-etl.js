const lines = ['{"user":"a","event":"click","ts":1700000000}', '{"user":"b","event":"view","ts":1700000060}', 'not json', '{"user":"a","event":"view","ts":1700003600}', ''];
const ok = [], errors = [];
lines.forEach((line, n) => {
  try { ok.push(JSON.parse(line)); } catch (err) { errors.push({ line: n + 1, error: err.name, message: err.message }); }
});
console.log(ok.length, errors);
const enriched = ok.map(({ ts, ...e }) => ({ ...e, at: new Date(ts * 1000).toISOString(), hour: new Date(ts * 1000).getUTCHours() }));
console.table(enriched);
const pivot = enriched.reduce((t, { user, event }) => { t[user] ??= {}; t[user][event] = (t[user][event] ?? 0) + 1; return t; }, {});
console.log(pivot); console.table(pivot);
process.stdout.write(enriched.map((e) => JSON.stringify(e)).join('\n') + '\n');
const stream = async function* () { for (const l of lines) { await null; yield l; } };
const pipe = (src, ...fns) => fns.reduce((s, f) => f(s), src);
const filter = (p) => async function* (s) { for await (const x of s) if (p(x)) yield x; };
const map = (f) => async function* (s) { for await (const x of s) yield f(x); };
(async () => { for await (const e of pipe(stream(), filter((l) => l.startsWith('{')), map(JSON.parse), map((e) => `${e.user}:${e.event}`))) console.log(e); })();
