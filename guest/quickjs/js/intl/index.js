// Puts `Intl` on the global object and gives Number, BigInt, Date, Array and String their locale methods. Evaluated once, when
// the image is made; nothing here runs before a program uses it.
import { canonicalLocaleList, DEFAULT_LOCALE, Locale, joinParts, localeData, splitTag } from './core.js';
import { NumberFormat, makeNumberSlots, formatNumberParts } from './numberformat.js';
import { PluralRules } from './plural.js';
import { DateTimeFormat, makeDateSlots, formatDate } from './dateformat.js';
import { ListFormat, RelativeTimeFormat } from './lists.js';
import { Collator, localeCompare } from './collate.js';
import { Segmenter } from './segment.js';
import { DisplayNames } from './names.js';
import { zoneIds } from './zones.js';

const define = (object, methods) => {
  for (const key of Object.keys(methods)) Object.defineProperty(object, key, { value: methods[key], writable: true, enumerable: false, configurable: true });
};

const Intl = {};
Object.defineProperty(Intl, Symbol.toStringTag, { value: 'Intl', configurable: true });
const COLLATIONS = ['emoji', 'eor'], SYSTEMS = ['latn'];
define(Intl, {
  getCanonicalLocales(locales) { return canonicalLocaleList(locales); },
  supportedValuesOf(key) {
    const symbols = localeData(DEFAULT_LOCALE).number;
    switch (String(key)) {
      case 'calendar': return ['gregory'];
      case 'collation': return [...COLLATIONS];
      case 'currency': return Object.keys(symbols.symbols);
      case 'numberingSystem': return [...SYSTEMS];
      case 'timeZone': return [...zoneIds(), 'UTC'].sort();
      case 'unit': return Object.keys(symbols.units).filter(u => !u.includes('-per-'));
      default: throw new RangeError(`Invalid key : ${String(key)}`);
    }
  },
  DateTimeFormat, NumberFormat, Collator, PluralRules, RelativeTimeFormat, ListFormat, Locale, DisplayNames, Segmenter,
});
define(globalThis, { Intl });

// Formatters of toLocaleString calls, kept by what they were asked with.
const kept = new Map();
function formatter(kind, locales, options, make) {
  if (typeof locales !== 'string' && locales !== undefined) return make();
  let key = `${kind}|${locales}`;
  if (options !== undefined) {
    if (typeof options !== 'object' || options === null) return make();
    for (const name in options) {
      const v = options[name];
      if (typeof v === 'object' || typeof v === 'function' || typeof v === 'symbol') return make();
      key += `|${name}=${typeof v}${String(v)}`;
    }
  }
  let s = kept.get(key);
  if (s === undefined) {
    if (kept.size > 50) kept.clear();
    kept.set(key, s = make());
  }
  return s;
}

const formatNumber = (value, locales, options) => joinParts(formatNumberParts(formatter('n', locales, options, () => makeNumberSlots(locales, options)), value));
const numberValue = Number.prototype.valueOf, bigValue = BigInt.prototype.valueOf, timeOf = Date.prototype.getTime;
define(Number.prototype, { toLocaleString(locales = undefined, options = undefined) { return formatNumber(numberValue.call(this), locales, options); } });
define(BigInt.prototype, { toLocaleString(locales = undefined, options = undefined) { return formatNumber(bigValue.call(this), locales, options); } });

function dateText(date, locales, options, required, defaults) {
  const ms = timeOf.call(date);
  if (ms !== ms) return 'Invalid Date';
  return formatDate(formatter(required + defaults, locales, options, () => makeDateSlots(locales, options, required, defaults)), ms);
}
define(Date.prototype, {
  toLocaleString(locales = undefined, options = undefined) { return dateText(this, locales, options, 'any', 'all'); },
  toLocaleDateString(locales = undefined, options = undefined) { return dateText(this, locales, options, 'date', 'date'); },
  toLocaleTimeString(locales = undefined, options = undefined) { return dateText(this, locales, options, 'time', 'time'); },
});

function joinLocale(list, locales, options) {
  let out = '';
  for (let i = 0; i < list.length; i++) {
    const v = list[i];
    if (i) out += ',';
    if (v !== undefined && v !== null) out += String(v.toLocaleString(locales, options));
  }
  return out;
}
const joining = new Set();
const arrayMethod = {
  toLocaleString(locales = undefined, options = undefined) {
    if (joining.has(this)) return ''; // an array inside itself
    joining.add(this);
    try { return joinLocale(Object(this), locales, options); } finally { joining.delete(this); }
  },
};
define(Array.prototype, arrayMethod);
define(Object.getPrototypeOf(Uint8Array.prototype), { toLocaleString(locales = undefined, options = undefined) { return joinLocale(this, locales, options); } });

const upperCase = String.prototype.toUpperCase, lowerCase = String.prototype.toLowerCase;
/** Turkish and Azerbaijani have a dotless i; every other served language follows the root rules. */
function languageOf(locales) {
  const [tag = DEFAULT_LOCALE] = canonicalLocaleList(locales);
  return splitTag(tag).base.split('-')[0];
}
const needThis = (value, method) => { if (value === undefined || value === null) throw new TypeError(`String.prototype.${method} called on null or undefined`); return String(value); };
define(String.prototype, {
  localeCompare(that, locales = undefined, options = undefined) { return localeCompare(needThis(this, 'localeCompare'), String(that), locales, options); },
  toLocaleUpperCase(locales = undefined) {
    const text = needThis(this, 'toLocaleUpperCase');
    if (locales === undefined) return upperCase.call(text);
    const language = languageOf(locales);
    if (language === 'lt') throw new RangeError('Unsupported locale: lt (its case rules are not available in this sandbox)');
    return upperCase.call(language === 'tr' || language === 'az' ? text.replaceAll('i', 'İ') : text);
  },
  toLocaleLowerCase(locales = undefined) {
    const text = needThis(this, 'toLocaleLowerCase');
    if (locales === undefined) return lowerCase.call(text);
    const language = languageOf(locales);
    if (language === 'lt') throw new RangeError('Unsupported locale: lt (its case rules are not available in this sandbox)');
    return lowerCase.call(language === 'tr' || language === 'az' ? text.replace(/I\u0307?/g, m => (m.length > 1 ? 'i' : 'ı')).replaceAll('İ', 'i') : text);
  },
});
