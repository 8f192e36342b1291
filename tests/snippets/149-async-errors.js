const wait = (ms, v) => new Promise(r => setTimeout(r, ms, v));
async function load(id) { await wait(5); if (id === 2) throw new TypeError(`bad id ${id}`); if (id === 3) return undefined.value; return { id, at: new Date(id * 1e9).toLocaleDateString('en-US', { timeZone: 'UTC' }) }; }
(async () => {
  const rs = await Promise.allSettled([1, 2, 3].map(load));
  for (const r of rs) console.log(r.status, r.value ?? `${r.reason.name}: ${r.reason.message}`);
  try { await Promise.any([Promise.reject(new Error('a')), Promise.reject(new Error('b'))]); } catch (e) { console.log(e.name, e.message, e.errors.map(x => x.message)); }
  try { null.foo(); } catch (e) { console.log(e.message); }
})();
