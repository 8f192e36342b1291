process.on('uncaughtException', (err, origin) => {
  console.log('caught globally:', err.message, origin);
});
process.on('unhandledRejection', (reason, promise) => {
  console.log('unhandled:', reason instanceof Error ? reason.message : reason, promise instanceof Promise);
});
setTimeout(() => { throw new Error('from timer'); }, 1);
setTimeout(() => console.log('still alive'), 5);
Promise.reject(new Error('from promise'));
Promise.reject('plain reason');
process.nextTick(() => { throw new TypeError('from tick'); });
queueMicrotask(() => console.log('micro'));
const late = Promise.reject(new Error('handled later')); late.catch((e) => console.log('late catch', e.message));
process.on('exit', (c) => console.log('exit', c));
