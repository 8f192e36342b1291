process.on('exit', (code) => { console.log('exiting with', code); });
process.exitCode = 3;
console.log(process.exitCode, process.argv.length >= 2, typeof process.env, process.cwd().length > 0);
setTimeout(() => {
  console.log('timer');
  process.stdout.write('no newline ');
  process.stdout.write('then newline\n');
  process.exit(process.exitCode + 4);
  console.log('unreachable');
}, 5);
