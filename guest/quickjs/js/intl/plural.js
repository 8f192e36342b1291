// Plural rules of the served languages (CLDR 48), and Intl.PluralRules.
import { resolveLocale, coerceOptions, requireObject, getOption, setSlots, getSlots, defineIntl, instanceFor } from './core.js';
import { digitOptions, roundFor, digitResolved } from './digits.js';
import { toDecimal, layout } from './decimal.js';

const million = p => p.v === 0 && p.i !== '0' && p.i.endsWith('000000');
const CARDINAL = {
  en: p => (p.i === '1' && p.v === 0 ? 'one' : 'other'),
  fr: p => (p.i === '0' || p.i === '1' ? 'one' : million(p) ? 'many' : 'other'),
  it: p => (p.i === '1' && p.v === 0 ? 'one' : million(p) ? 'many' : 'other'),
  es: p => (p.i === '1' && p.t === '' ? 'one' : million(p) ? 'many' : 'other'),
  ja: () => 'other',
};
CARDINAL.de = CARDINAL.sv = CARDINAL.nl = CARDINAL.en;
CARDINAL.zh = CARDINAL.ja;
CARDINAL.pt = CARDINAL.fr;
const ORDINAL = {
  en: p => {
    const ten = p.i.slice(-1), hundred = p.i.slice(-2);
    if (p.t !== '') return 'other';
    return ten === '1' && hundred !== '11' ? 'one' : ten === '2' && hundred !== '12' ? 'two' : ten === '3' && hundred !== '13' ? 'few' : 'other';
  },
  fr: p => (p.t === '' && p.i === '1' ? 'one' : 'other'),
  it: p => (p.t === '' && ['11', '8', '80', '800'].includes(p.i) ? 'many' : 'other'),
  sv: p => (p.t === '' && /[12]$/.test(p.i) && !/1[12]$/.test(p.i) ? 'one' : 'other'),
};
const CATEGORIES = {
  cardinal: { en: ['one', 'other'], de: ['one', 'other'], sv: ['one', 'other'], nl: ['one', 'other'], ja: ['other'], zh: ['other'], default: ['one', 'many', 'other'] },
  ordinal: { en: ['few', 'one', 'two', 'other'], fr: ['one', 'other'], sv: ['one', 'other'], it: ['many', 'other'], default: ['other'] },
};

/** The category of a number as it is written: integer and fraction digits. */
export function pluralOf(base, integer, fraction, type = 'cardinal') {
  const language = base.slice(0, 2);
  const rule = (type === 'ordinal' ? ORDINAL : CARDINAL)[language];
  return rule === undefined ? 'other' : rule({ i: integer.replace(/^0+(?=\d)/, ''), v: fraction.length, t: fraction.replace(/0+$/, '') });
}

/** Chooses among recorded forms `one|other` or `one|other|many`. */
export function chooseForm(forms, category) {
  const list = forms.split('|');
  if (list.length === 1) return list[0];
  return category === 'one' ? list[0] : category === 'many' && list.length > 2 ? list[2] : list[1];
}

export function PluralRules(locales, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.PluralRules requires 'new'");
  const object = instanceFor(new.target, PluralRules);
  const { locale, base } = resolveLocale(locales);
  const o = coerceOptions(options);
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', 'Intl.PluralRules');
  const type = getOption(o, 'type', 'string', ['cardinal', 'ordinal'], 'cardinal', 'Intl.PluralRules');
  return setSlots(object, { kind: 'PluralRules', locale, base, type, ...digitOptions(o, 0, 3, 'standard', 'Intl.PluralRules') });
}

function select(s, value) {
  const d = toDecimal(value);
  if (d.kind !== 'finite') return 'other';
  const { rounded, minFraction } = roundFor(s, d);
  const { integer, fraction } = layout(rounded, s.minimumIntegerDigits, minFraction);
  return pluralOf(s.base, integer, fraction, s.type);
}

defineIntl(PluralRules, 'PluralRules', 0, {
  select(n) { return select(getSlots(this, 'PluralRules', 'select'), Number(n)); },
  selectRange(start, end) {
    const s = getSlots(this, 'PluralRules', 'selectRange');
    if (start === undefined || end === undefined) throw new TypeError('Invalid argument');
    const a = Number(start), b = Number(end);
    if (a !== a || b !== b) throw new RangeError('Invalid argument');
    return select(s, b);
  },
  resolvedOptions() {
    const s = getSlots(this, 'PluralRules', 'resolvedOptions'), table = CATEGORIES[s.type];
    return { locale: s.base.slice(0, 2), type: s.type, ...digitResolved(s), pluralCategories: [...(table[s.base.slice(0, 2)] ?? table.default)], roundingIncrement: s.roundingIncrement, roundingMode: s.roundingMode, roundingPriority: s.roundingPriority, trailingZeroDisplay: s.trailingZeroDisplay };
  },
});
