const EventEmitter = require('events');
class Store extends EventEmitter {
  constructor() { super(); this.items = new Map(); }
  set(k, v) { const old = this.items.get(k); this.items.set(k, v); this.emit('change', k, v, old); return this; }
}
const s = new Store();
s.on('change', (k, v, old) => console.log(`${k}: ${old} -> ${v}`));
s.once('change', () => console.log('first change only'));
s.prependListener('change', function (k) { console.log('prepended', k, this === s); });
s.set('a', 1).set('a', 2);
console.log(s.listenerCount('change'), s.eventNames(), s.emit('nothing'), s.emit('change', 'x'));
console.log(s);
try { s.emit('error', new Error('unhandled emitter error')); } catch (e) { console.log('threw', e.message); }
s.on('error', (e) => console.log('handled', e.message)); s.emit('error', new Error('second'));
try { new EventEmitter().emit('error', { code: 5 }); } catch (e) { console.log(e.name, e.code, e.message); }
const h = () => console.log('h'); s.on('x', h); s.off('x', h); console.log(s.emit('x'), s.rawListeners('change').length, EventEmitter.defaultMaxListeners, s.getMaxListeners());
s.removeAllListeners(); console.log(s.eventNames());
const { once, EventEmitter: EE } = EventEmitter; console.log(EE === EventEmitter, typeof once);
(async () => { const e = new EE(); setTimeout(() => e.emit('ready', 1, 'two'), 5); console.log(await once(e, 'ready')); setTimeout(() => e.emit('error', new Error('async err')), 5); try { await once(e, 'ready'); } catch (er) { console.log(er.message); } })();
try { s.on('bad', 'not a function'); } catch (e) { console.log(e.code, e.message); }
const order = []; const e2 = new EventEmitter(); e2.on('newListener', (n) => order.push('new:' + n)); e2.on('removeListener', (n) => order.push('rm:' + n)); const f = () => {}; e2.on('z', f); e2.removeListener('z', f); console.log(order);
const target = new EventTarget(); target.addEventListener('ping', (ev) => { console.log(ev.type, ev.detail, ev instanceof Event); ev.preventDefault(); }, { once: true }); console.log(target.dispatchEvent(new CustomEvent('ping', { detail: { n: 1 }, cancelable: true })), target.dispatchEvent(new Event('ping')));
