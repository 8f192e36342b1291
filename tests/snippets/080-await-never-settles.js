console.log('start');
setTimeout(() => console.log('timer fired'), 10);
async function main() {
  console.log('waiting');
  await new Promise(() => {});
  console.log('never');
}
main().then(() => console.log('never either'));
process.on('exit', (code) => console.log('exit', code));
