// Rounding options of ECMA-402 (fraction digits, significant digits, increments) and their application.
import { getOption, getNumberOption } from './core.js';
import { roundPlaces, roundSignificant } from './decimal.js';

const INCREMENTS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000];
const MODES = ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven'];

/** Reads the digit options; `low` and `high` are the default fraction digits. */
export function digitOptions(o, low, high, notation, owner) {
  const minimumIntegerDigits = getNumberOption(o, 'minimumIntegerDigits', 1, 21, 1);
  let mnfd = o.minimumFractionDigits, mxfd = o.maximumFractionDigits, mnsd = o.minimumSignificantDigits, mxsd = o.maximumSignificantDigits;
  const roundingIncrement = getNumberOption(o, 'roundingIncrement', 1, 5000, 1);
  if (!INCREMENTS.includes(roundingIncrement)) throw new RangeError('roundingIncrement value is out of range.');
  const roundingMode = getOption(o, 'roundingMode', 'string', MODES, 'halfExpand', owner);
  let roundingPriority = getOption(o, 'roundingPriority', 'string', ['auto', 'morePrecision', 'lessPrecision'], 'auto', owner);
  const trailingZeroDisplay = getOption(o, 'trailingZeroDisplay', 'string', ['auto', 'stripIfInteger'], 'auto', owner);
  if (roundingIncrement !== 1) high = low;
  const hasSignificant = mnsd !== undefined || mxsd !== undefined, hasFraction = mnfd !== undefined || mxfd !== undefined;
  let needSignificant = true, needFraction = true;
  if (roundingPriority === 'auto') {
    needSignificant = hasSignificant;
    if (needSignificant || (!hasFraction && notation === 'compact')) needFraction = false;
  }
  const r = { minimumIntegerDigits };
  if (needSignificant) {
    r.minimumSignificantDigits = hasSignificant ? getNumberOption(o, 'minimumSignificantDigits', 1, 21, 1) : 1;
    r.maximumSignificantDigits = hasSignificant ? getNumberOption(o, 'maximumSignificantDigits', r.minimumSignificantDigits, 21, 21) : 21;
  }
  if (needFraction) {
    if (hasFraction) {
      mnfd = getNumberOption(o, 'minimumFractionDigits', 0, 100, undefined);
      mxfd = getNumberOption(o, 'maximumFractionDigits', 0, 100, undefined);
      if (mnfd === undefined) mnfd = Math.min(low, mxfd);
      else if (mxfd === undefined) mxfd = Math.max(high, mnfd);
      else if (mnfd > mxfd) throw new RangeError('maximumFractionDigits value is out of range.');
      r.minimumFractionDigits = mnfd;
      r.maximumFractionDigits = mxfd;
    } else {
      r.minimumFractionDigits = low;
      r.maximumFractionDigits = high;
    }
  }
  if (!needSignificant && !needFraction) {
    Object.assign(r, { minimumFractionDigits: 0, maximumFractionDigits: 0, minimumSignificantDigits: 1, maximumSignificantDigits: 2, roundingType: 'morePrecision' });
    roundingPriority = 'morePrecision';
  } else {
    r.roundingType = roundingPriority !== 'auto' ? roundingPriority : hasSignificant ? 'significantDigits' : 'fractionDigits';
  }
  if (roundingIncrement !== 1) {
    if (r.roundingType !== 'fractionDigits') throw new TypeError('RoundingType is not fractionDigits');
    if (r.maximumFractionDigits !== r.minimumFractionDigits) throw new RangeError('roundingIncrement value is out of range.');
  }
  return Object.assign(r, { roundingIncrement, roundingMode, roundingPriority, trailingZeroDisplay });
}

/** Rounds `d` as the options say; `minFraction` is how many fraction digits are shown at least. */
export function roundFor(s, d) {
  const byFraction = () => ({ rounded: roundPlaces(d, s.maximumFractionDigits, s.roundingMode, s.roundingIncrement), minFraction: s.minimumFractionDigits, places: s.maximumFractionDigits });
  const bySignificant = () => {
    const rounded = roundSignificant(d, s.maximumSignificantDigits, s.roundingMode);
    const magnitude = rounded.digits === '' ? 1 : rounded.point;
    return { rounded, minFraction: Math.max(0, s.minimumSignificantDigits - magnitude), places: s.maximumSignificantDigits - (d.digits === '' ? 1 : d.point) };
  };
  let r;
  if (s.roundingType === 'significantDigits') r = bySignificant();
  else if (s.roundingType === 'fractionDigits') r = byFraction();
  else {
    const a = bySignificant(), b = byFraction();
    r = (a.places > b.places) === (s.roundingType === 'morePrecision') ? a : b;
  }
  if (s.trailingZeroDisplay === 'stripIfInteger' && r.rounded.digits.length <= Math.max(r.rounded.point, 0)) r.minFraction = 0;
  return r;
}

export function digitResolved(s) {
  const out = { minimumIntegerDigits: s.minimumIntegerDigits };
  for (const k of ['minimumFractionDigits', 'maximumFractionDigits', 'minimumSignificantDigits', 'maximumSignificantDigits']) if (s[k] !== undefined) out[k] = s[k];
  return out;
}
