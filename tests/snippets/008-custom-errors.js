class ValidationError extends Error {
  constructor(field, message, options) {
    super(message, options);
    this.name = 'ValidationError';
    this.field = field;
  }
}
class NotFound extends Error {
  get name() { return 'NotFound'; }
}
function validate(user) {
  if (!user.email) throw new ValidationError('email', 'Email is required');
  if (!/^[^@\s]+@[^@\s]+\.[a-z]+$/i.test(user.email)) throw new ValidationError('email', `Bad email: ${user.email}`);
  return true;
}
for (const u of [{}, { email: 'nope' }, { email: 'a@b.co' }]) {
  try {
    console.log('ok', validate(u));
  } catch (err) {
    console.log(`${err.name}: ${err.message} [${err.field}]`, err instanceof ValidationError, err instanceof Error);
    console.log(String(err), Object.keys(err), JSON.stringify(err));
  }
}
const wrapped = new Error('outer', { cause: new TypeError('inner') });
console.log(wrapped.cause.message, wrapped.cause instanceof TypeError);
console.log(new NotFound('gone').toString(), Object.prototype.toString.call(new NotFound('x')));
const agg = new AggregateError([new Error('one'), new RangeError('two')], 'many');
console.log(agg.message, agg.errors.map(String));
console.log(wrapped.stack.split('\n')[0], new ValidationError('f', 'm').stack.split('\n')[0]);
const e = new Error('x'); e.code = 'E_CODE'; e.stack = undefined; console.log(e.message, e.code);
