// Intl.Collator and String.prototype.localeCompare: the root collation of ICU for common scripts.
import { resolveLocale, coerceOptions, getOption, setSlots, getSlots, defineIntl, instanceFor, DEFAULT_LOCALE } from './core.js';
import { ORDER, EXPANSIONS, MARKS, IGNORABLE, VARIABLE } from './data/collation.js';

// Weights by UTF-16 code unit (characters above U+FFFF: by map). A primary of 0 means "not listed".
const primary = new Uint16Array(0x10000), fine = new Uint8Array(0x10000); // fine: accent rank × 16 + variant rank
const astral = new Map(), expansions = new Map();
const MARK = 0xffff, SKIP = 0xfffe, RUN = 0xfffd;
const IMPLICIT = 0x8000; // unlisted characters sort by code point behind all listed ones

{
  let group = 0;
  for (const text of ORDER.split('\u0000')) {
    group++;
    let accent = 0, variant = 0;
    for (const c of text) {
      if (c === '\u0001') { accent++; variant = 0; continue; }
      if (c === '\u0002') { variant++; continue; }
      if (c === '\u0003') continue;
      const code = c.codePointAt(0), rank = Math.min(accent, 15) * 16 + Math.min(variant, 15);
      if (code > 0xffff) astral.set(code, group * 256 + rank);
      else { primary[code] = group; fine[code] = rank; }
    }
  }
  for (const c of MARKS) { primary[c.charCodeAt(0)] = MARK; fine[c.charCodeAt(0)] = MARKS.indexOf(c); }
  for (const c of IGNORABLE) primary[c.charCodeAt(0)] = SKIP;
  for (const line of EXPANSIONS.split('\u0000')) {
    const [c] = line, kind = line.endsWith('\u0001') ? 1 : line.endsWith('\u0002') ? 2 : 0;
    expansions.set(c, [line.slice(c.length, kind ? -1 : undefined), kind]);
    if (c.length === 1) primary[c.charCodeAt(0)] = RUN;
  }
}
const ZERO = primary[48];
const UPPER = new Set('ABCDEFGHIJKLMNOPQRSTUVWXYZ');
const isUpper = c => (c <= '~' ? UPPER.has(c) : c !== c.toLowerCase());

/** Weights of a text: primaries, accents, variants (upper case counts as variant). */
function weigh(text, s) {
  const p = [], accents = [], variants = [], cases = [];
  let skipMarks = false;
  const add = (weight, rank, upper) => {
    if (s.ignorePunctuation && weight <= VARIABLE) { skipMarks = true; return; }
    skipMarks = false;
    p.push(weight);
    accents.push(rank >> 4);
    variants.push(s.upperFirst && upper ? -1 : rank & 15);
    cases.push(upper ? 1 : 0);
  };
  const walk = (string, bump) => {
    const normal = /^[\x00-\x7f]*$/.test(string) ? string : string.normalize('NFD');
    for (let i = 0; i < normal.length; i++) {
      const code = normal.charCodeAt(i);
      let weight = primary[code];
      if (weight === SKIP) continue;
      if (weight === MARK) { if (!skipMarks) { accents.push(20 + fine[code]); variants.push(0); } continue; }
      if (weight === RUN) {
        const [run, kind] = expansions.get(normal[i]);
        const upper = isUpper(normal[i]);
        walk(run, kind);
        if (kind === 1) accents[accents.length - 1] += 8;
        if (upper && cases.length) cases[cases.length - 1] = 1;
        continue;
      }
      if (s.numeric && code >= 48 && code <= 57) {
        let end = i;
        while (end < normal.length && normal.charCodeAt(end) >= 48 && normal.charCodeAt(end) <= 57) end++;
        const digits = normal.slice(i, end).replace(/^0+/, '') || '0';
        add(ZERO, 0, false);
        p.push(digits.length, ...Array.from(digits, Number));
        i = end - 1;
        continue;
      }
      if (code >= 0xd800 && code < 0xdc00) {
        const point = normal.codePointAt(i), known = astral.get(point);
        if (point > 0xffff) i++;
        if (known !== undefined) add(known >> 8, known & 255, false);
        else add(IMPLICIT + point, 0, false);
        continue;
      }
      if (s.spanish && (code === 110 || code === 78) && normal.charCodeAt(i + 1) === 0x303) { add(weight + 0.5, fine[code], code === 78); i++; continue; }
      if (weight === 0) add(IMPLICIT + code, 0, false);
      else add(weight, bump === 2 ? fine[code] + 1 : fine[code], code < 128 ? code >= 65 && code <= 90 : isUpper(normal[i]));
    }
  };
  walk(text, 0);
  return { p, accents, variants, cases };
}

function order(a, b) {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
}

/** Plain ASCII letters, digits and punctuation need no lists. */
function compareAscii(a, b) {
  const n = Math.min(a.length, b.length);
  let later = 0;
  for (let i = 0; i < n; i++) {
    const x = a.charCodeAt(i), y = b.charCodeAt(i);
    if (x === y) continue;
    const d = primary[x] - primary[y];
    if (d !== 0) return d < 0 ? -1 : 1;
    if (later === 0) later = fine[x] < fine[y] ? -1 : 1;
  }
  return a.length === b.length ? later : a.length < b.length ? -1 : 1;
}

const PRINTABLE = /^[ -~]*$/;
function compare(s, a, b) {
  if (a === b) return 0;
  if (s.plain && PRINTABLE.test(a) && PRINTABLE.test(b)) return compareAscii(a, b);
  const x = weigh(a, s), y = weigh(b, s);
  const base = order(x.p, y.p);
  if (base !== 0 || s.sensitivity === 'base') return base;
  if (s.sensitivity === 'case') return order(x.cases, y.cases);
  const accent = order(x.accents, y.accents);
  if (accent !== 0 || s.sensitivity === 'accent') return accent;
  return order(x.variants, y.variants);
}

export function Collator(locales, options) {
  return setSlots(instanceFor(new.target, Collator), makeSlots(locales, options));
}

function makeSlots(locales, options) {
  const { locale, base, keywords } = resolveLocale(locales, ['kf', 'kn']);
  const language = base.slice(0, 2);
  if (language === 'ja' || language === 'sv' || language === 'zh') throw new RangeError(`Unsupported locale for Intl.Collator: ${base} (this sandbox compares in root order, as for en, de, fr, it, nl, pt, and es)`);
  const o = coerceOptions(options), owner = 'Intl.Collator';
  const usage = getOption(o, 'usage', 'string', ['sort', 'search'], 'sort', owner);
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', owner);
  const numeric = getOption(o, 'numeric', 'boolean', undefined, keywords.kn !== undefined && keywords.kn !== 'false', owner);
  const caseFirst = getOption(o, 'caseFirst', 'string', ['upper', 'lower', 'false'], ['upper', 'lower'].includes(keywords.kf) ? keywords.kf : 'false', owner);
  const sensitivity = getOption(o, 'sensitivity', 'string', ['base', 'accent', 'case', 'variant'], 'variant', owner);
  const ignorePunctuation = getOption(o, 'ignorePunctuation', 'boolean', undefined, false, owner);
  const upperFirst = caseFirst === 'upper', spanish = language === 'es';
  return { kind: 'Collator', locale: base === DEFAULT_LOCALE ? locale : locale.replace(/^(..)-[A-Z]{2}/, '$1'), usage, sensitivity, ignorePunctuation, numeric, caseFirst, upperFirst, spanish, plain: sensitivity === 'variant' && !ignorePunctuation && !numeric && !upperFirst };
}

defineIntl(Collator, 'Collator', 0, {
  resolvedOptions() {
    const s = getSlots(this, 'Collator', 'resolvedOptions');
    return { locale: s.locale, usage: s.usage, sensitivity: s.sensitivity, ignorePunctuation: s.ignorePunctuation, collation: 'default', numeric: s.numeric, caseFirst: s.caseFirst };
  },
}, {
  compare() {
    const s = getSlots(this, 'Collator', 'compare');
    if (s.bound === undefined) {
      s.bound = { f: (x, y) => compare(s, String(x), String(y)) }.f;
      Object.defineProperty(s.bound, 'name', { value: '' });
    }
    return s.bound;
  },
});

const DEFAULT = makeSlots(DEFAULT_LOCALE);
/** What String.prototype.localeCompare answers. */
export function localeCompare(a, b, locales, options) {
  if (options === undefined && (locales === undefined || locales === DEFAULT_LOCALE || locales === 'en')) return compare(DEFAULT, a, b);
  return compare(makeSlots(locales, options), a, b);
}
