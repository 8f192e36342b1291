// Exact decimal numbers: the digits a format works on. A value is 0.<digits> × 10^<point>; zero has no digits.

/** Reads a Number, BigInt or numeric string; `kind` is 'finite', 'nan' or 'infinity'. */
export function toDecimal(value) {
  if (typeof value === 'bigint') {
    const text = value.toString();
    return fromText(text[0] === '-' ? text.slice(1) : text, 0, text[0] === '-');
  }
  if (typeof value === 'number') return fromNumber(value);
  const primitive = typeof value === 'object' && value !== null ? toPrimitive(value) : value;
  if (typeof primitive === 'bigint') return toDecimal(primitive);
  if (typeof primitive !== 'string') return fromNumber(Number(primitive));
  const m = /^\s*([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:e([+-]?\d+))?\s*$/i.exec(primitive);
  if (m === null) return fromNumber(Number(primitive));
  const integer = m[2] ?? '', fraction = m[3] ?? m[4] ?? '', exponent = Number(m[5] ?? 0);
  if (Math.abs(exponent) > 400) return fromNumber(Number(primitive));
  return fromText(integer + fraction, exponent - fraction.length, m[1] === '-');
}

function toPrimitive(object) {
  const exotic = object[Symbol.toPrimitive];
  if (exotic !== undefined && exotic !== null) return exotic.call(object, 'number');
  const v = object.valueOf();
  return typeof v === 'object' && v !== null ? String(object) : v;
}

function fromNumber(n) {
  if (n !== n) return { kind: 'nan', negative: false, digits: '', point: 0 };
  const negative = n < 0 || Object.is(n, -0);
  if (n === Infinity || n === -Infinity) return { kind: 'infinity', negative, digits: '', point: 0 };
  const text = String(negative ? -n : n), e = text.indexOf('e');
  const mantissa = e < 0 ? text : text.slice(0, e), dot = mantissa.indexOf('.');
  const digits = dot < 0 ? mantissa : mantissa.slice(0, dot) + mantissa.slice(dot + 1);
  return fromText(digits, (e < 0 ? 0 : Number(text.slice(e + 1))) - (dot < 0 ? 0 : mantissa.length - dot - 1), negative);
}

function fromText(digits, exponent, negative) {
  let start = 0;
  while (start < digits.length && digits[start] === '0') start++;
  let end = digits.length;
  while (end > start && digits[end - 1] === '0') end--;
  if (start === end) return { kind: 'finite', negative, digits: '', point: 0 };
  return { kind: 'finite', negative, digits: digits.slice(start, end), point: digits.length - start + exponent };
}

/** value × 10^n */
export const scale = (d, n) => (d.digits === '' ? d : { ...d, point: d.point + n });

/** Whether the part cut off makes the last kept digit grow. */
function roundsUp(mode, negative, odd, rest) {
  const half = rest === '' ? -2 : rest[0] > '5' ? 1 : rest[0] < '5' ? -1 : /[1-9]/.test(rest.slice(1)) ? 1 : 0;
  if (rest === '' || !/[1-9]/.test(rest)) return false;
  switch (mode) {
    case 'ceil': return !negative;
    case 'floor': return negative;
    case 'expand': return true;
    case 'trunc': return false;
    case 'halfCeil': return half > 0 || (half === 0 && !negative);
    case 'halfFloor': return half > 0 || (half === 0 && negative);
    case 'halfTrunc': return half > 0;
    case 'halfEven': return half > 0 || (half === 0 && odd);
    default: return half >= 0;
  }
}

function increment(digits) {
  let i = digits.length - 1;
  while (i >= 0 && digits[i] === '9') i--;
  return i < 0 ? '1' + '0'.repeat(digits.length) : digits.slice(0, i) + (Number(digits[i]) + 1) + '0'.repeat(digits.length - 1 - i);
}

/** Rounds to `places` digits behind the point (negative: before it). */
export function roundPlaces(d, places, mode, step = 1) {
  if (d.digits === '') return d;
  const keep = d.point + places;
  if (step === 1 && keep >= d.digits.length) return d;
  let kept = keep <= 0 ? '' : d.digits.slice(0, keep).padEnd(keep, '0');
  let rest = keep < 0 ? '0'.repeat(-keep) + d.digits : d.digits.slice(Math.max(keep, 0));
  if (step > 1) {
    const whole = BigInt(kept || '0'), size = BigInt(step), below = whole / size, over = whole % size;
    // the remainder relative to the step, as decimal digits
    const scaled = ((over * 10n ** BigInt(rest.length) + BigInt(rest || '0')) * 10n ** 30n) / (size * 10n ** BigInt(rest.length));
    rest = scaled.toString().padStart(30, '0');
    const up = roundsUp(mode, d.negative, below % 2n === 1n, rest);
    const digits = ((below + (up ? 1n : 0n)) * size).toString();
    return fromText(digits, -places, d.negative);
  }
  if (roundsUp(mode, d.negative, kept !== '' && Number(kept[kept.length - 1]) % 2 === 1, rest)) kept = increment(kept || '0');
  return fromText(kept, -places, d.negative);
}

export const roundSignificant = (d, count, mode) => (d.digits === '' ? d : roundPlaces(d, count - d.point, mode));

/** Digits before and behind the point, at least `minInteger` and `minFraction` of them. */
export function layout(d, minInteger, minFraction) {
  let integer = d.point > 0 ? d.digits.slice(0, d.point).padEnd(d.point, '0') : '';
  let fraction = d.point >= d.digits.length ? '' : d.point >= 0 ? d.digits.slice(d.point) : '0'.repeat(-d.point) + d.digits;
  if (integer === '') integer = '0';
  return { integer: integer.padStart(minInteger, '0'), fraction: fraction.padEnd(minFraction, '0') };
}
