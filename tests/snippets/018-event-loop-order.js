console.log('1 sync');
setTimeout(() => console.log('8 timeout 0'), 0);
setImmediate(() => console.log('9 immediate or later'));
Promise.resolve().then(() => {
  console.log('4 microtask');
  process.nextTick(() => console.log('7 tick from microtask'));
}).then(() => console.log('6 second microtask'));
queueMicrotask(() => console.log('5 queueMicrotask'));
process.nextTick(() => console.log('3 nextTick'));
console.log('2 sync end');
