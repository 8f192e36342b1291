console.log(Promise.resolve(42), Promise.reject(new Error('r')).catch(() => {}), new Promise(() => {}));
const p = Promise.resolve({ a: { b: { c: 1 } } });
console.log([p], { p });
const rejected = Promise.reject('why'); rejected.catch(() => {});
console.log(rejected);
(async () => {
  const all = Promise.all([1, Promise.resolve(2)]);
  console.log(all); await all; console.log(all);
  const { promise, resolve } = Promise.withResolvers();
  setTimeout(resolve, 5, 'later');
  console.log(promise, await promise, promise);
  console.log(await { then(res) { res('thenable'); } });
  console.log(await Promise.resolve(1).finally(() => 2), typeof Promise.try);
  const order = [];
  await Promise.all([
    (async () => { order.push('a1'); await null; order.push('a2'); await null; order.push('a3'); })(),
    (async () => { order.push('b1'); await null; order.push('b2'); })(),
    new Promise(r => { order.push('c1'); r(); }).then(() => order.push('c2')),
  ]);
  console.log(order.join(' '));
})();
