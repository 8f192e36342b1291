const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
async function pool(tasks, limit) {
  const results = []; let next = 0, active = 0, peak = 0;
  await Promise.all(Array.from({ length: limit }, async (_, worker) => {
    while (next < tasks.length) {
      const i = next++; active++; peak = Math.max(peak, active);
      try { results[i] = { status: 'ok', value: await tasks[i](), worker }; } catch (e) { results[i] = { status: 'error', error: e.message, worker }; } finally { active--; }
    }
  }));
  return { results, peak };
}
const tasks = [30, 10, 20, 5, 15].map((ms, i) => async () => { await sleep(ms); if (i === 3) throw new Error(`task ${i} failed`); return i * 10; });
async function retry(fn, n, delay) { for (let k = 1; ; k++) { try { return await fn(k); } catch (e) { console.log(`attempt ${k} failed: ${e.message}`); if (k >= n) throw e; await sleep(delay * 2 ** (k - 1)); } } }
const timeout = (p, ms) => Promise.race([p, sleep(ms).then(() => { throw new Error(`timeout after ${ms}ms`); })]);
class Mutex { #tail = Promise.resolve(); run(fn) { const p = this.#tail.then(fn); this.#tail = p.catch(() => {}); return p; } }
(async () => {
  const { results, peak } = await pool(tasks, 2); console.log(peak); console.log(results); console.table(results);
  console.log(await retry(async (k) => { if (k < 3) throw new Error('flaky'); return `ok on ${k}`; }, 5, 10));
  await retry(async () => { throw new Error('always'); }, 2, 1).catch((e) => console.log('gave up:', e.message));
  await timeout(sleep(100), 20).catch((e) => console.log(e.message)); console.log(await timeout(sleep(5).then(() => 'in time'), 50));
  const mx = new Mutex(), seq = []; await Promise.all([30, 10, 20].map((ms, i) => mx.run(async () => { seq.push(`s${i}`); await sleep(ms); seq.push(`e${i}`); }))); console.log(seq.join(' '));
  const q = []; const producer = (async () => { for (let i = 0; i < 3; i++) { await sleep(5); q.push(i); } q.push(null); })(); for (;;) { if (!q.length) { await sleep(1); continue; } const v = q.shift(); if (v === null) break; console.log('consumed', v); } await producer;
  const batch = []; for (let i = 0; i < 7; i += 3) batch.push(Array.from({ length: Math.min(3, 7 - i) }, (_, k) => i + k)); for (const b of batch) console.log(await Promise.all(b.map(async (x) => x ** 2)));
})();
