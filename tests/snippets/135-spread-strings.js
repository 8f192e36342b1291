console.log({ ...'ab' }, { ...[1, 2] }, [...'héé'], Object.assign({}, 'xyz'));
console.log(Object.entries('hi'), { ...null, ...undefined, ...5, ...true });
const { length, ...rest } = 'abc';
console.log(length, rest);
console.log('a\0b'.length, JSON.stringify('a\0b'));
console.log('nul:\0:after');
