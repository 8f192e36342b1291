const data = {
  str: 'héllo "wörld" \u0007 \u2028',
  num: [0, -0, 1.50, 1e100, 5e-324, NaN, Infinity],
  nested: { date: new Date('2020-02-30T00:00:00Z'), d2: new Date(0), undef: undefined, fn() {}, sym: Symbol('x') },
  arr: [undefined, () => 1, Symbol('y'), null],
  toJSON: undefined,
  boxed: [new Number(3), new String('s'), Object(true)],
  map: new Map([[1, 2]]), set: new Set([1]),
};
console.log(JSON.stringify(data));
console.log(JSON.stringify(data, null, 2));
console.log(JSON.stringify(data, ['str', 'nested', 'd2'], '--'));
console.log(JSON.stringify({ a: [1, [2, [3]]], b: {} , c: []}, null, '\t'));
const revived = JSON.parse('{"when":"2024-05-06T07:08:09.000Z","n":"12n","list":[1,2,3]}', function (key, value) {
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value)) return new Date(value);
  if (typeof value === 'string' && /^\d+n$/.test(value)) return BigInt(value.slice(0, -1));
  if (Array.isArray(value)) return value.reverse();
  return value;
});
console.log(revived);
console.log(JSON.stringify('\ud800'), JSON.stringify({ ['__proto__']: 1 }), JSON.stringify(undefined), JSON.stringify(null));
console.log(JSON.parse('{"__proto__": {"x": 1}}'), JSON.parse(' [1 , 2 ] '), JSON.parse('"\\u0041\\n"'));
class Money { constructor(c) { this.c = c; } toJSON(key) { return `${key}:${(this.c / 100).toFixed(2)}`; } }
console.log(JSON.stringify({ price: new Money(1999), list: [new Money(5)] }));
try { JSON.stringify({ n: 1n }); } catch (e) { console.log(e.message); }
