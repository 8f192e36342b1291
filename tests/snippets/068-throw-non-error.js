for (const v of ['str', 42, null, undefined, { code: 1 }, [1], Symbol('s'), () => 'fn']) {
  try { throw v; } catch (e) { console.log(typeof e, e); }
}
const f = () => { try { return 'try'; } finally { console.log('finally runs'); } }; console.log(f());
const g = () => { try { throw new Error('lost'); } finally { return 'finally wins'; } }; console.log(g());
const h = () => { for (const x of [1, 2, 3]) { try { if (x === 2) continue; console.log('x', x); } finally { console.log('f', x); } } }; h();
label: for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) { if (j === 1) continue label; if (i === 2) break label; console.log(i, j); }
try { try { throw new Error('inner'); } catch (e) { throw new Error('outer', { cause: e }); } } catch (e) { console.log(e.message, '<-', e.cause.message); }
const p = (async () => { try { await Promise.reject(new Error('async inner')); } catch (e) { return 'recovered ' + e.message; } finally { console.log('async finally'); } })(); p.then(console.log);
p.then(() => { throw { status: 500, body: 'fail' }; }).catch((e) => console.log('rejected with', e)).then(() => { throw 'final uncaught string'; });
process.on('exit', (c) => console.log('code', c));
