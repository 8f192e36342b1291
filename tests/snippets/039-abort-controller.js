const { setTimeout: delay } = require('timers/promises');
const ac = new AbortController();
console.log(ac.signal.aborted, ac, ac.signal);
ac.signal.addEventListener('abort', () => console.log('listener', ac.signal.reason.name));
ac.signal.onabort = (e) => console.log('onabort', e.type);
async function work(signal) {
  for (let i = 0; i < 5; i++) {
    signal.throwIfAborted();
    console.log('step', i);
    await delay(10);
  }
}
setTimeout(() => ac.abort(), 25);
work(ac.signal).catch((e) => { console.log(e.name, e.message, e.code, e instanceof DOMException); })
  .then(async () => {
    const c2 = new AbortController();
    const p = delay(1000, 'late', { signal: c2.signal });
    c2.abort(new Error('custom reason'));
    try { await p; } catch (e) { console.log(e.name, e.code, e.message, e.cause?.message); }
    const s = AbortSignal.abort('because'); console.log(s.aborted, s.reason); try { s.throwIfAborted(); } catch (e) { console.log('thrown', e); }
    const t = AbortSignal.timeout(5); const any = AbortSignal.any([t, new AbortController().signal]);
    any.addEventListener('abort', () => console.log('any aborted', any.reason.name));
    await delay(20); console.log(t.aborted, any.aborted, t.reason.message);
    console.log(await delay(1, 'value'));
    let i = 0; for await (const v of require('timers/promises').setInterval(5, 'iv')) { console.log(v, ++i); if (i === 3) break; }
  });
