process.stdout.write('partial...');
process.stdout.write(' done\n');
console.error('this goes to stderr');
process.stdout.write(Buffer.from('bytes: \xff\n', 'latin1'));
process.stdout.write(new Uint8Array([104, 105, 10]));
console.log('nul:\0:nul', 'bell:\x07', 'esc:\u001b[0m', 'crlf\r');
console.log('emoji 🎉 lone \ud83d end');
console.log('very long '.repeat(20));
console.log(['a\0b', 'tab\t', 'new\nline', '\u001b[31mred\u001b[0m']);
try { process.stdout.write(42); } catch (e) { console.log(e.code, e.message); }
try { process.stdout.write(null); } catch (e) { console.log(e.code); }
process.stdout.write('cb\n', () => console.log('write callback'));
console.log(process.stdout.columns === undefined || typeof process.stdout.columns, process.stdout.fd, process.stderr.fd, typeof process.stdout.on);
console.log.apply(console, ['apply', 1]); console.log(...['spread', [1]]); console.info?.('optional call'); const out = []; const orig = console.log; console.log = (...a) => out.push(a.join(' ')); console.log('captured', 1); console.log = orig; console.log(out);
const realWrite = process.stdout.write; let captured = ''; process.stdout.write = (s) => { captured += s; return true; }; console.log('via write?'); process.stdout.write = realWrite; console.log(JSON.stringify(captured));
