// Intl.NumberFormat.
import { localeData, resolveLocale, coerceOptions, getOption, setSlots, getSlots, defineIntl, instanceFor, joinParts, push } from './core.js';
import { digitOptions, roundFor, digitResolved } from './digits.js';
import { toDecimal, scale, layout } from './decimal.js';
import { pluralOf, chooseForm } from './plural.js';

const OWNER = 'Intl.NumberFormat';
const NO_MINOR_UNIT = new Set('BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'.split(' '));
const THREE_DIGITS = new Set('BHD IQD JOD KWD LYD OMR TND'.split(' '));
const FOUR_DIGITS = new Set(['CLF', 'UYW']);
const WIDTHS = { long: 0, short: 1, narrow: 2 };
export const currencyDigits = c => (NO_MINOR_UNIT.has(c) ? 0 : THREE_DIGITS.has(c) ? 3 : FOUR_DIGITS.has(c) ? 4 : 2);

export function NumberFormat(locales, options) {
  const object = instanceFor(new.target, NumberFormat);
  return setSlots(object, makeNumberSlots(locales, options));
}

export function makeNumberSlots(locales, options) {
  const { locale, base } = resolveLocale(locales, ['nu']);
  const o = coerceOptions(options);
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', OWNER);
  checkNumberingSystem(o);
  const style = getOption(o, 'style', 'string', ['decimal', 'percent', 'currency', 'unit'], 'decimal', OWNER);
  const data = localeData(base).number;
  const currency = getOption(o, 'currency', 'string', undefined, undefined, OWNER);
  if (currency === undefined) { if (style === 'currency') throw new TypeError('Currency code is required with currency style.'); }
  else if (!/^[a-z]{3}$/i.test(currency)) throw new RangeError(`Invalid currency code : ${currency}`);
  const currencyDisplay = getOption(o, 'currencyDisplay', 'string', ['code', 'symbol', 'narrowSymbol', 'name'], 'symbol', OWNER);
  const currencySign = getOption(o, 'currencySign', 'string', ['standard', 'accounting'], 'standard', OWNER);
  const unit = getOption(o, 'unit', 'string', undefined, undefined, OWNER);
  if (unit === undefined) { if (style === 'unit') throw new TypeError("Invalid unit argument for Intl.NumberFormat() ''"); }
  else if (!isUnit(data, unit)) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${unit}'`);
  const unitDisplay = getOption(o, 'unitDisplay', 'string', ['short', 'narrow', 'long'], 'short', OWNER);
  const s = { kind: 'NumberFormat', locale, base, data, style };
  if (style === 'currency') Object.assign(s, { currency: currency.toUpperCase(), currencyDisplay, currencySign });
  if (style === 'unit') Object.assign(s, { unit, unitDisplay });
  s.notation = getOption(o, 'notation', 'string', ['standard', 'scientific', 'engineering', 'compact'], 'standard', OWNER);
  const digits = style === 'currency' ? currencyDigits(s.currency) : 0;
  Object.assign(s, digitOptions(o, digits, style === 'currency' ? digits : style === 'percent' ? 0 : 3, s.notation, OWNER));
  const compactDisplay = getOption(o, 'compactDisplay', 'string', ['short', 'long'], 'short', OWNER);
  if (s.notation === 'compact') s.compactDisplay = compactDisplay;
  s.useGrouping = readGrouping(o, s.notation);
  s.signDisplay = getOption(o, 'signDisplay', 'string', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto', OWNER);
  return s;
}

export function checkNumberingSystem(o) {
  const nu = o.numberingSystem;
  if (nu === undefined) return;
  if (!/^[a-z\d]{3,8}(-[a-z\d]{3,8})*$/i.test(String(nu))) throw new RangeError(`Invalid numberingSystem : ${nu}`);
  if (String(nu).toLowerCase() !== 'latn') throw new RangeError(`Unsupported numbering system: ${nu} (this sandbox formats with latn)`);
}

function readGrouping(o, notation) {
  const fallback = notation === 'compact' ? 'min2' : 'auto';
  const v = o.useGrouping;
  if (v === undefined) return fallback;
  if (v === true) return 'always';
  if (!v) return false;
  const text = String(v);
  if (text === 'true' || text === 'false') return fallback;
  if (!['min2', 'auto', 'always'].includes(text)) throw new RangeError(`Value ${text} out of range for ${OWNER} options property useGrouping`);
  return text;
}

function isUnit(data, unit) {
  if (Object.hasOwn(data.units, unit)) return true;
  const i = unit.indexOf('-per-');
  return i > 0 && Object.hasOwn(data.units, unit.slice(0, i)) && Object.hasOwn(data.units, unit.slice(i + 5));
}

// ---- digits to parts

function groupInteger(parts, integer, s) {
  const { group, minGroup } = s.data, indian = s.currencySign === 'accounting' && s.currencyDisplay.endsWith('ymbol') ? s.data.indianAccounting : s.data.indian;
  const least = s.useGrouping === 'min2' ? 2 : s.useGrouping === 'always' ? 1 : minGroup;
  if (s.useGrouping === false || integer.length < 3 + least) { parts.push({ type: 'integer', value: integer }); return; }
  const groups = [];
  let end = integer.length;
  for (let size = 3; end > 0; size = indian ? 2 : 3) { groups.unshift(integer.slice(Math.max(0, end - size), end)); end -= size; }
  for (let i = 0; i < groups.length; i++) {
    if (i) parts.push({ type: 'group', value: group });
    parts.push({ type: 'integer', value: groups[i] });
  }
}

function digitParts(parts, s, r) {
  const { integer, fraction } = layout(r.rounded, s.minimumIntegerDigits, r.minFraction);
  groupInteger(parts, integer, s);
  if (fraction !== '') parts.push({ type: 'decimal', value: s.data.decimal }, { type: 'fraction', value: fraction });
  return { integer, fraction };
}

/** The number without sign, currency or unit: parts, its plural category, and whether it rounded to zero. */
function magnitude(s, d) {
  const parts = [];
  if (d.kind === 'nan') return { parts: [{ type: 'nan', value: s.data.nan }], category: 'other', zero: false };
  if (d.kind === 'infinity') return { parts: [{ type: 'infinity', value: s.data.infinity }], category: 'other', zero: false };
  if (s.notation === 'compact') return compact(s, d);
  if (s.notation === 'scientific' || s.notation === 'engineering') {
    const exponentOf = x => (x.digits === '' ? 0 : s.notation === 'engineering' ? Math.floor((x.point - 1) / 3) * 3 : x.point - 1);
    let exponent = exponentOf(d), r = roundFor(s, scale(d, -exponent));
    const grown = exponentOf(scale(r.rounded, exponent));
    if (grown !== exponent) { exponent = grown; r = roundFor(s, scale(d, -exponent)); }
    digitParts(parts, s, r);
    parts.push({ type: 'exponentSeparator', value: s.data.exponent });
    if (exponent < 0) parts.push({ type: 'exponentMinusSign', value: s.data.minus });
    parts.push({ type: 'exponentInteger', value: String(Math.abs(exponent)) });
    const whole = layout(scale(r.rounded, exponent), 1, 0);
    return { parts, category: pluralOf(s.base, whole.integer, whole.fraction), zero: r.rounded.digits === '' };
  }
  const r = roundFor(s, d), shown = digitParts(parts, s, r);
  return { parts, category: pluralOf(s.base, shown.integer, shown.fraction), zero: r.rounded.digits === '' };
}

function compactEntry(s, exponent) {
  const { compact } = s.data;
  const named = s.style === 'currency' && s.currencyDisplay !== 'name';
  const table = compact[named ? (s.compactDisplay === 'long' ? 'curLong' : 'cur') : s.compactDisplay];
  if (exponent < 3) return { shift: 0, text: '' };
  const i = Math.min(exponent, 20) - 3, text = table[i];
  if (text === '') return { shift: 0, text };
  const digits = Number(text.slice(0, text.indexOf(';')));
  return { shift: i + 3 - (digits - 1), text };
}

function compact(s, d) {
  let exponent = d.digits === '' ? 0 : d.point - 1, entry = compactEntry(s, exponent), r = roundFor(s, scale(d, -entry.shift));
  const grown = r.rounded.digits === '' ? 0 : r.rounded.point - 1 + entry.shift;
  if (grown > exponent) {
    exponent = grown;
    entry = compactEntry(s, exponent);
    r = roundFor(s, scale(d, -entry.shift));
  }
  const number = [], shown = digitParts(number, s, r);
  const full = scale(r.rounded, entry.shift), whole = layout(full, 1, 0);
  const category = entry.text === '' ? pluralOf(s.base, shown.integer, shown.fraction) : pluralOf(s.base, whole.integer, whole.fraction);
  const parts = [];
  if (entry.text === '') parts.push(...number);
  else expand(parts, chooseForm(entry.text, pluralOf(s.base, shown.integer, shown.fraction)).replace(/^\d+;/, ''), number, 'compact');
  return { parts, category, zero: r.rounded.digits === '' };
}

/** Writes a recorded pattern: `#` is the number, `{…}` a word of the given type. */
function expand(parts, pattern, number, type, sign) {
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === '#') { if (sign) parts.push(sign); parts.push(...number); }
    else if (c === '{') { const end = pattern.indexOf('}', i); push(parts, type, pattern.slice(i + 1, end)); i = end; }
    else push(parts, 'literal', c);
  }
}

function signOf(s, d, zero) {
  const negative = d.negative && d.kind !== 'nan';
  switch (s.signDisplay) {
    case 'never': return '';
    case 'always': return negative ? '-' : '+';
    case 'exceptZero': return zero || d.kind === 'nan' ? '' : negative ? '-' : '+';
    case 'negative': return negative && !zero ? '-' : '';
    default: return negative ? '-' : '';
  }
}

/** The symbol, code or name of the currency. */
export function currencyText(data, code, display, category = 'other') {
  const record = data.symbols[code];
  if (record === undefined) return code;
  const [symbol, narrow, one, other, many] = record.split('|');
  switch (display) {
    case 'code': return code;
    case 'symbol': return symbol;
    case 'narrowSymbol': return narrow;
    default: return category === 'one' ? one : category === 'many' && many ? many : other;
  }
}

/** `plural` overrides the category of the number: the end of a range names its unit for the whole range. */
export function formatNumberParts(s, value, plural) {
  let d = toDecimal(value);
  if (s.style === 'percent') d = scale(d, 2);
  const { parts: number, category: own, zero } = magnitude(s, d), category = plural ?? own;
  const sign = signOf(s, d, zero);
  const signPart = sign === '' ? undefined : sign === '-' ? { type: 'minusSign', value: s.data.minus } : { type: 'plusSign', value: s.data.plus };
  if (s.style === 'decimal') return signPart ? [signPart, ...number] : number;
  const parts = [];
  if (s.style === 'unit') { unitParts(parts, s, s.unit, WIDTHS[s.unitDisplay], number, category, signPart); return parts; }
  if (s.style === 'percent' && s.notation === 'compact') { expand(parts, s.data.pctCompact, number, 'unit', signPart); return parts; }
  if (s.style === 'percent') { affixed(parts, s.data.pct[sign ? 1 : 0], number, signPart, s, ''); return parts; }
  const text = currencyText(s.data, s.currency, s.currencyDisplay, category);
  if (s.currencyDisplay === 'name') {
    if (signPart) parts.push(signPart);
    for (const c of s.data.name[0]) {
      if (c === '#') parts.push(...number);
      else if (c === '¤') parts.push({ type: 'currency', value: text });
      else push(parts, 'literal', c);
    }
    return parts;
  }
  const accounting = s.currencySign === 'accounting';
  const table = accounting ? s.data.acc : s.data.cur;
  affixed(parts, accounting && sign === '+' ? `-${table[0]}` : table[sign ? 1 : 0], number, signPart, s, text);
  return parts;
}

/** Writes a pattern of `-`, `¤`, `%`, `#`; a currency that ends in a letter keeps a no-break space to the digits. */
function affixed(parts, pattern, number, signPart, s, currency) {
  const digit = number[0].type === 'integer';
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === '#') parts.push(...number);
    else if (c === '-') { if (signPart) parts.push(signPart); }
    else if (c === '%') parts.push({ type: 'percentSign', value: s.data.percent });
    else if (c === '¤') {
      if (digit && pattern[i - 1] === '#' && /^\p{L}/u.test(currency)) push(parts, 'literal', '\u00a0');
      parts.push({ type: 'currency', value: currency });
      if (digit && pattern[i + 1] === '#' && /[\p{L}.]$/u.test(currency)) push(parts, 'literal', '\u00a0');
    } else push(parts, 'literal', c);
  }
}

function unitParts(parts, s, unit, width, number, category, signPart) {
  const { units } = s.data, record = units[unit];
  let pattern;
  if (record !== undefined) pattern = chooseForm(record[width], category);
  else {
    const i = unit.indexOf('-per-'), per = units[unit.slice(i + 5)][3].split('|')[width];
    pattern = chooseForm(units[unit.slice(0, i)][width], category).replace(/\}([^}]*)$/, (_, tail) => `${per}}${tail}`);
  }
  expand(parts, pattern, number, 'unit', signPart);
}

// ---- ranges

function rangeParts(s, start, end) {
  if (start === undefined || end === undefined) throw new TypeError('start or end is undefined');
  const a = toDecimal(start), b = toDecimal(end);
  if (a.kind === 'nan' || b.kind === 'nan') throw new RangeError(a.kind === 'nan' ? 'Invalid start : NaN' : 'Invalid end : NaN');
  const left = formatNumberParts(s, start), right = formatNumberParts(s, end, s.base.startsWith('en') ? 'other' : undefined);
  const mark = (parts, source) => parts.map(p => ({ type: p.type, value: p.value, source }));
  if (joinParts(left) === joinParts(formatNumberParts(s, end))) {
    const out = mark(left, 'shared');
    if (out[0].value !== '(') out.unshift({ type: 'approximatelySign', value: s.data.approximately, source: 'shared' });
    return out;
  }
  // As ICU does: a unit or currency name is written once; sign, symbol and percent are written once if both sides agree on them
  // and they are more than one character long, and then a common compact suffix is too.
  const isNumber = p => /^(integer|group|decimal|fraction|compact|exponent.*|infinity|nan)$/.test(p.type);
  const cut = parts => { const from = parts.findIndex(isNumber), to = parts.findLastIndex(isNumber) + 1; return [parts.slice(0, from), parts.slice(from, to), parts.slice(to)]; };
  let [head, first, tail] = cut(left), [head2, second, tail2] = cut(right), outer = [];
  if ((s.style === 'unit' && s.unit !== 'percent') || s.currencyDisplay === 'name' || (s.style === 'percent' && s.notation === 'compact')) { outer = tail2; tail = tail2 = []; }
  const compactOf = parts => parts.find(p => p.type === 'compact')?.value;
  const affix = joinParts(head) + joinParts(tail), once = compactOf(first) === compactOf(second) && joinParts(head) === joinParts(head2) && joinParts(tail) === joinParts(tail2) && [...affix].length > 1;
  const inner = first.at(-1), shared = once && inner.type === 'compact' && second.at(-1).type === 'compact' && inner.value === second.at(-1).value;
  if (shared) { first = first.slice(0, -1); tail = [inner, ...tail]; second = second.slice(0, -1); }
  const spaced = (!once && affix !== '') || (!shared && (inner.type === 'compact' || inner.type === 'exponentInteger'));
  const gap = { type: 'literal', value: spaced ? ` ${s.data.range.trim()} ` : s.data.range, source: 'shared' };
  const last = mark(outer, 'shared');
  if (!once) return [...mark([...head, ...first, ...tail], 'startRange'), gap, ...mark([...head2, ...second, ...tail2], 'endRange'), ...last];
  return [...mark(head, 'shared'), ...mark(first, 'startRange'), gap, ...mark(second, 'endRange'), ...mark(tail, 'shared'), ...last];
}

const slot = (o, m) => getSlots(o, 'NumberFormat', m);
defineIntl(NumberFormat, 'NumberFormat', 0, {
  formatToParts(value) { return formatNumberParts(slot(this, 'formatToParts'), value); },
  formatRange(start, end) { return joinParts(rangeParts(slot(this, 'formatRange'), start, end)); },
  formatRangeToParts(start, end) { return rangeParts(slot(this, 'formatRangeToParts'), start, end); },
  resolvedOptions() {
    const s = slot(this, 'resolvedOptions');
    const out = { locale: s.locale, numberingSystem: 'latn', style: s.style };
    for (const k of ['currency', 'currencyDisplay', 'currencySign', 'unit', 'unitDisplay']) if (s[k] !== undefined) out[k] = s[k];
    Object.assign(out, digitResolved(s), { useGrouping: s.useGrouping, notation: s.notation });
    if (s.compactDisplay) out.compactDisplay = s.compactDisplay;
    return Object.assign(out, { signDisplay: s.signDisplay, roundingIncrement: s.roundingIncrement, roundingMode: s.roundingMode, roundingPriority: s.roundingPriority, trailingZeroDisplay: s.trailingZeroDisplay });
  },
}, {
  format() {
    const s = slot(this, 'format');
    if (s.bound === undefined) {
      s.bound = { f: value => joinParts(formatNumberParts(s, value)) }.f;
      Object.defineProperty(s.bound, 'name', { value: '' });
    }
    return s.bound;
  },
});
