const createStore = (reducer, initial, ...mw) => {
  let state = initial; const subs = new Set();
  const base = (action) => { state = reducer(state, action); subs.forEach((f) => f(state)); return action; };
  const api = { getState: () => state, dispatch: (a) => dispatch(a), subscribe: (f) => { subs.add(f); return () => subs.delete(f); } };
  const dispatch = mw.map((m) => m(api)).reduceRight((next, m) => m(next), base);
  dispatch({ type: '@@INIT' }); return api;
};
const todos = (s = [], a) => { switch (a.type) { case 'ADD': return [...s, { id: s.length + 1, text: a.text, done: false }]; case 'TOGGLE': return s.map((t) => t.id === a.id ? { ...t, done: !t.done } : t); default: return s; } };
const filter = (s = 'ALL', a) => a.type === 'FILTER' ? a.value : s;
const combine = (rs) => (s = {}, a) => Object.fromEntries(Object.entries(rs).map(([k, r]) => [k, r(s[k], a)]));
const logger = (api) => (next) => (a) => { console.log('->', a); const r = next(a); console.log('<-', JSON.stringify(api.getState())); return r; };
const thunk = ({ dispatch, getState }) => (next) => (a) => typeof a === 'function' ? a(dispatch, getState) : next(a);
const store = createStore(combine({ todos, filter }), undefined, thunk, logger);
const off = store.subscribe((s) => console.log('changed', s.todos.length));
store.dispatch({ type: 'ADD', text: 'write' }); store.dispatch({ type: 'ADD', text: 'test' }); store.dispatch({ type: 'TOGGLE', id: 1 }); off();
store.dispatch((d, get) => { d({ type: 'FILTER', value: 'DONE' }); return Promise.resolve(get().filter); }).then((f) => console.log('async filter', f));
console.log(store.getState()); console.log(store);
const signal = (v) => { const subs = new Set(); return [() => v, (nv) => { v = typeof nv === 'function' ? nv(v) : nv; subs.forEach((s) => s(v)); }, (s) => subs.add(s)]; };
const [count, setCount, watch] = signal(0); watch((v) => console.log('count is', v)); setCount(5); setCount((c) => c + 1); console.log(count());
