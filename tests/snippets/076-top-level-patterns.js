#!/usr/bin/env node
'use strict';
const { inspect } = require('util');
const main = async () => {
  const args = process.argv.slice(2);
  if (args.length === 0) console.log('Usage: script <name>');
  const results = [];
  for await (const item of [Promise.resolve('a'), 'b', new Promise((r) => setTimeout(r, 5, 'c'))]) results.push(item);
  return results;
};
main()
  .then((r) => console.log(inspect(r)))
  .catch((e) => { console.error(e); process.exitCode = 1; })
  .finally(() => console.log('done'));
console.log(typeof this, this === undefined);
function sloppy() { return this === undefined; } console.log(sloppy());
try { (function () { undeclared = 5; })(); } catch (e) { console.log(e.name, e.message); }
const obj = { a: 1, get b() { return this.a + 1; } }; Object.freeze(obj); try { obj.a = 2; } catch (e) { console.log(e.message); } try { obj.c = 3; } catch (e) { console.log(e.message); } try { delete obj.a; } catch (e) { console.log(e.message); }
(() => { console.log('IIFE arrow'); })(); (function iife() { console.log('IIFE', iife.name); })(); !function () { console.log('bang'); }();
