const machine = {
  initial: 'idle',
  states: {
    idle: { FETCH: 'loading' },
    loading: { RESOLVE: 'success', REJECT: 'failure', CANCEL: 'idle' },
    success: { RESET: 'idle' },
    failure: { RETRY: 'loading', RESET: 'idle' },
  },
};
class Machine {
  #state; #history = []; #listeners = new Set();
  constructor(def) { this.def = def; this.#state = def.initial; }
  get state() { return this.#state; }
  get history() { return [...this.#history]; }
  onTransition(fn) { this.#listeners.add(fn); return () => this.#listeners.delete(fn); }
  send(event) {
    const next = this.def.states[this.#state]?.[event];
    if (!next) { console.warn('ignored', event); return false; }
    const prev = this.#state; this.#history.push(`${prev} --${event}--> ${next}`); this.#state = next;
    for (const l of this.#listeners) l(next, prev, event);
    return true;
  }
}
const m = new Machine(machine);
const off = m.onTransition((to, from, ev) => console.log(`[${ev}] ${from} => ${to}`));
console.log(['FETCH', 'REJECT', 'RETRY', 'BOGUS', 'RESOLVE'].map((e) => m.send(e)));
off(); m.send('RESET'); console.log(m.state, m.history); console.log(m);
const tokens = '3 + 4 * (2 - 1) / 5'.match(/\d+(\.\d+)?|[-+*/()]/g); console.log(tokens);
const prec = { '+': 1, '-': 1, '*': 2, '/': 2 }; const out = [], ops = [];
for (const t of tokens) { if (/\d/.test(t)) out.push(t); else if (t === '(') ops.push(t); else if (t === ')') { while (ops.at(-1) !== '(') out.push(ops.pop()); ops.pop(); } else { while (prec[ops.at(-1)] >= prec[t]) out.push(ops.pop()); ops.push(t); } }
while (ops.length) out.push(ops.pop()); console.log(out.join(' '));
console.log(out.reduce((st, t) => { if (/\d/.test(t)) st.push(+t); else { const b = st.pop(), a = st.pop(); st.push({ '+': a + b, '-': a - b, '*': a * b, '/': a / b }[t]); } return st; }, [])[0]);
