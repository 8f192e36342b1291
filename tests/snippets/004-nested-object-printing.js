const config = {
  server: {
    host: 'localhost',
    ports: [8080, 8081],
    tls: { enabled: true, cert: { path: '/etc/cert.pem', chain: ['a', 'b', { deep: true }] } },
  },
  'content-type': 'application/json',
  features: new Set(['a', 'b']),
  limits: new Map([['cpu', 2], ['mem', { max: 512, unit: 'MB' }]]),
  handler: function onRequest(req) {},
  arrow: () => {},
  async task() {},
  *gen() {},
  klass: class Foo extends Map {},
  sym: Symbol('id'),
  [Symbol('hidden')]: 1,
  re: /ab+c/gi,
  when: new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 250)),
  bad: new Date(NaN),
  nothing: null,
  undef: undefined,
  nan: NaN,
  negZero: -0,
  big: 123456789012345678901234567890n,
  get computed() { return 1; },
  set computed(v) {},
  get ro() { return 2; },
  set wo(v) {},
  long: 'x'.repeat(120),
  multi: 'line1\nline2',
  quote: "it's",
  both: `it's "quoted"`,
};
console.log(config);
console.log([undefined, null, NaN, -0, 0, 1e21, 1e-7, 'a\tb', Symbol.iterator]);
console.log({}, [], new Map(), new Set(), function () {}, class {}, () => {});
console.log([[]], [{}], { a: {} }, { a: [] }, [[[[]]]], { a: { b: { c: { d: 1 } } } });
