for (const name of ['left-pad', './local', '@scope/pkg']) {
  try { require(name); console.log('loaded', name); } catch (e) { console.log(e.code, e instanceof Error, e.message.split(/[\n:]/)[0]); }
}
console.log(typeof require, typeof module, typeof exports, require.main === module, module.exports === exports, typeof __filename, typeof __dirname);
const util = require('node:util'); console.log(util === require('util'), Object.keys(require('timers/promises')).slice(0, 3), typeof require('perf_hooks').performance.now());
try { require(''); } catch (e) { console.log(e.code); } try { require(5); } catch (e) { console.log(e.code, e.name); }
let chalk; try { chalk = require('chalk'); } catch { chalk = { red: (s) => `<red>${s}</red>` }; } console.log(chalk.red('fallback'));
exports.add = (a, b) => a + b; module.exports.sub = (a, b) => a - b; console.log(module.exports, require('string_decoder').StringDecoder.name, typeof require('console').log, require('process') === process, require('buffer').Buffer === Buffer);
const { StringDecoder } = require('string_decoder'); const d = new StringDecoder('utf8'); console.log(JSON.stringify(d.write(Buffer.from([0xe2, 0x82]))), JSON.stringify(d.write(Buffer.from([0xac]))), JSON.stringify(d.end()));
if (require.main === module) { console.log('running as main'); }
