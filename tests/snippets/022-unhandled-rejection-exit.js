console.log('before');
process.on('exit', (code) => console.log('exit code', code));
async function boom() {
  await null;
  throw new Error('nobody catches me');
}
boom();
setTimeout(() => console.log('never printed'), 10);
console.log('after');
