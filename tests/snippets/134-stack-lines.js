function inner() { throw new Error('deep'); }
class Service { constructor() { this.name = 'svc'; } run() { inner(); } static make() { return new Service(); } }
try { Service.make().run(); } catch (e) {
  const lines = e.stack.split('\n');
  console.log(lines[0]);
  console.log(lines[1].trim().replace(/\(.*[\\/]/, '(').replace(/^at /, 'at '));
  console.log(/at Service\.run/.test(e.stack), /:\d+:\d+\)?$/.test(lines[1]));
}
console.log(inner.toString());
console.log((x => x * 2).toString(), String(class A { b() {} }), Math.max.toString());
