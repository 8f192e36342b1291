const clock = { ticks: 0 };
const job = setInterval(() => {
  clock.ticks++;
  if (clock.ticks % 2 === 0) console.log('tick', clock.ticks);
  if (clock.ticks >= 6) { clearInterval(job); console.log('stopped'); }
}, 10);
const poll = async (fn, { every = 10, max = 5 } = {}) => { for (let i = 1; i <= max; i++) { const r = await fn(i); if (r) return { r, tries: i }; await new Promise((res) => setTimeout(res, every)); } throw new Error(`gave up after ${max} tries`); };
poll((i) => i === 3 && 'ready', { every: 200 }).then((r) => console.log('poll', r));
poll(() => false, { every: 200, max: 2 }).catch((e) => console.log('poll failed:', e.message));
const debounce = (fn, ms) => { let t; return (...a) => { clearTimeout(t); t = setTimeout(fn, ms, ...a); }; };
const d = debounce((x) => console.log('debounced', x), 150); d(1); d(2); setTimeout(d, 50, 3);
const throttle = (fn, ms) => { let ready = true; return (...a) => { if (!ready) return; ready = false; fn(...a); setTimeout(() => { ready = true; }, ms); }; };
const th = throttle((x) => console.log('throttled', x), 500); th('a'); th('b'); setTimeout(th, 250, 'c'); setTimeout(th, 800, 'd');
setTimeout(function () { console.log('this is a Timeout', this.constructor.name); }, 900);
const p = new Promise((_, rej) => setTimeout(rej, 950, new Error('late rejection'))); p.catch((e) => console.log(e.message));
