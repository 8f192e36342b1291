const Calculator = (function () {
  let memory = 0;
  const ops = { '+': (a, b) => a + b, '-': (a, b) => a - b, '*': (a, b) => a * b, '/': (a, b) => { if (b === 0) throw new Error('Cannot divide by zero'); return a / b; } };
  return { calc(a, op, b) { if (!ops[op]) throw new Error(`Unknown operator: ${op}`); return (memory = ops[op](a, b)); }, get memory() { return memory; }, clear: () => void (memory = 0), ops: Object.keys(ops) };
})();
console.log(Calculator.calc(6, '*', 7), Calculator.memory, Calculator.ops, Calculator);
for (const args of [[1, '/', 0], [1, '^', 2], ['a', '+', 1]]) try { console.log(Calculator.calc(...args)); } catch (err) { console.log('Error:', err.message); }
module.exports = { Calculator, version: '1.0.0' }; console.log(Object.keys(module.exports), exports === module.exports, typeof module.exports.Calculator.calc);
console.log(require.main === module ? 'script' : 'library', module.id, module.children.length, typeof module.paths);
const registry = new Map(); const define = (name, deps, factory) => registry.set(name, { deps, factory, instance: undefined }); const load = (name) => { const m = registry.get(name); if (!m) throw new Error(`Module "${name}" not registered`); return (m.instance ??= m.factory(...m.deps.map(load))); };
define('config', [], () => ({ debug: true })); define('logger', ['config'], ({ debug }) => ({ log: (...a) => debug && console.log('[log]', ...a) })); define('app', ['logger', 'config'], (logger, config) => ({ start: () => logger.log('started with', config) })); load('app').start(); console.log(load('config') === load('config')); try { load('missing'); } catch (e) { console.log(e.message); } console.log(registry);
globalThis.shared = { set: true }; console.log(shared, typeof globalThis.shared, delete globalThis.shared, typeof shared); const ns = { ...require('util').types }; console.log(ns.isDate(new Date()), typeof ns.isMap);
