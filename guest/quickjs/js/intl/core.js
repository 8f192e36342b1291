// What all Intl constructors share: locale tags, options, internal slots and parts.
import * as enUS from './data/en-US.js';
import * as enGB from './data/en-GB.js';
import * as enCA from './data/en-CA.js';
import * as deDE from './data/de-DE.js';
import * as frFR from './data/fr-FR.js';
import * as jaJP from './data/ja-JP.js';
import * as esES from './data/es-ES.js';
import * as itIT from './data/it-IT.js';
import * as ptBR from './data/pt-BR.js';
import * as svSE from './data/sv-SE.js';
import * as enAU from './data/en-AU.js';
import * as enIN from './data/en-IN.js';
import * as esMX from './data/es-MX.js';
import * as nlNL from './data/nl-NL.js';
import * as zhCN from './data/zh-CN.js';

export const DEFAULT_LOCALE = 'en-US';

/** Every tag that is served, with the tag whose facts serve it. */
const SERVED = {
  'en-US': enUS, en: enUS, 'en-GB': enGB, 'en-CA': enCA, 'de-DE': deDE, de: deDE, 'fr-FR': frFR, fr: frFR, 'ja-JP': jaJP, ja: jaJP,
  'es-ES': esES, es: esES, 'it-IT': itIT, it: itIT, 'pt-BR': ptBR, pt: ptBR, 'sv-SE': svSE, sv: svSE,
  'en-AU': enAU, 'en-IN': enIN, 'es-MX': esMX, 'nl-NL': nlNL, nl: nlNL, 'zh-CN': zhCN, zh: zhCN,
};
export const SERVED_TAGS = Object.keys(SERVED);

const loaded = new Map();
/** The facts of a served tag; each section is parsed when first asked for. */
export function localeData(tag) {
  const texts = SERVED[tag];
  let data = loaded.get(texts);
  if (data === undefined) {
    data = {};
    for (const section of ['number', 'date', 'list', 'relative']) {
      Object.defineProperty(data, section, {
        configurable: true,
        get() {
          const value = JSON.parse(texts[section]);
          Object.defineProperty(data, section, { value });
          return value;
        },
      });
    }
    loaded.set(texts, data);
  }
  return data;
}
// The default locale is parsed with the image: its programs pay nothing.
{ const { number, date, list, relative } = localeData(DEFAULT_LOCALE); void [number, date, list, relative]; }

const TAG = /^(?:([a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4}|[a-z]{5,8})(-[a-z]{4})?(-(?:[a-z]{2}|\d{3}))?((?:-(?:[a-z\d]{5,8}|\d[a-z\d]{3}))*)((?:-[a-wyz\d](?:-[a-z\d]{2,8})+)*)(-x(?:-[a-z\d]{1,8})+)?)$/i;
const OLD_LANGUAGES = { iw: 'he', in: 'id', ji: 'yi', jw: 'jv', mo: 'ro', tl: 'fil', sh: 'sr-Latn' };

function canonicalTag(tag) {
  const m = TAG.exec(tag);
  if (m === null) throw new RangeError(`Incorrect locale information provided`);
  const [, language, script = '', region = '', variants = '', extensions = '', privateUse = ''] = m;
  const lower = language.toLowerCase();
  let out = OLD_LANGUAGES[lower] ?? lower;
  if (script) out += '-' + script[1].toUpperCase() + script.slice(2).toLowerCase();
  if (region) out += region.toUpperCase();
  if (variants) out += '-' + variants.slice(1).toLowerCase().split('-').sort().join('-');
  if (extensions) out += '-' + extensions.slice(1).toLowerCase().replace(/-true(?=-|$)/g, '').split(/-(?=[a-z\d]-)/).sort().join('-');
  return out + privateUse.toLowerCase();
}

export function canonicalLocaleList(locales) {
  if (locales === undefined) return [];
  const list = typeof locales === 'string' || locales instanceof Locale ? [locales] : Object(locales);
  if (locales === null) throw new TypeError('Cannot convert undefined or null to object');
  const seen = [];
  const length = Math.min(Number(list.length) || 0, 2 ** 32);
  for (let i = 0; i < length; i++) {
    if (!(i in list)) continue;
    const tag = list[i];
    if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('Language ID should be string or object.');
    const canonical = canonicalTag(String(tag));
    if (!seen.includes(canonical)) seen.push(canonical);
  }
  return seen;
}

/** Splits `de-DE-u-nu-latn-kn` into its base and the keywords of `-u-`. */
export function splitTag(tag) {
  const i = tag.search(/-u(?=-)/);
  const keywords = {};
  if (i < 0) return { base: tag.replace(/-[a-wyz\d]-.*$|-x-.*$/, ''), keywords };
  const words = tag.slice(i + 3).split(/-[a-tv-z\d](?=-)/)[0].split('-');
  let key = '';
  for (const w of words) {
    if (w.length === 2) keywords[key = w] = '';
    else if (key) keywords[key] += (keywords[key] && '-') + w;
  }
  return { base: tag.slice(0, i), keywords };
}

/** The first served locale of the list; a RangeError that names the locale if none is. */
export function resolveLocale(locales, used = []) {
  if (locales === undefined) return { locale: DEFAULT_LOCALE, base: DEFAULT_LOCALE, keywords: {} };
  if (typeof locales === 'string' && Object.hasOwn(SERVED, locales)) return { locale: locales, base: locales, keywords: {} };
  const list = canonicalLocaleList(locales);
  if (list.length === 0) return { locale: DEFAULT_LOCALE, base: DEFAULT_LOCALE, keywords: {} };
  for (const tag of list) {
    const { base, keywords } = splitTag(tag);
    if (!Object.hasOwn(SERVED, base)) continue;
    if (keywords.nu && keywords.nu !== 'latn') throw new RangeError(`Unsupported numbering system: ${keywords.nu} (this sandbox formats with latn)`);
    if (keywords.ca && keywords.ca !== 'gregory' && keywords.ca !== 'gregorian') throw new RangeError(`Unsupported calendar: ${keywords.ca} (this sandbox formats with gregory)`);
    const kept = used.filter(k => keywords[k] !== undefined).sort().map(k => '-' + k + (keywords[k] && '-' + keywords[k])).join('');
    return { locale: base + (kept && '-u' + kept), base, keywords };
  }
  throw new RangeError(`Unsupported locale: ${list.join(', ')} (this sandbox formats for ${SERVED_TAGS.join(', ')})`);
}

export function supportedLocalesOf(name) {
  return {
    supportedLocalesOf(locales, options) {
      if (options !== undefined) getOption(Object(options), 'localeMatcher', 'string', ['lookup', 'best fit'], undefined, name);
      return canonicalLocaleList(locales).filter(tag => Object.hasOwn(SERVED, splitTag(tag).base));
    },
  }.supportedLocalesOf;
}

export function getOption(options, property, type, values, fallback, owner) {
  let value = options[property];
  if (value === undefined) return fallback;
  value = type === 'boolean' ? Boolean(value) : String(value);
  if (values !== undefined && !values.includes(value)) throw new RangeError(`Value ${value} out of range for ${owner} options property ${property}`);
  return value;
}

export function getNumberOption(options, property, min, max, fallback) {
  const value = options[property];
  if (value === undefined) return fallback;
  const n = Number(value);
  if (!(n >= min && n <= max)) throw new RangeError(`${property} value is out of range.`);
  return Math.floor(n);
}

export function coerceOptions(options) {
  if (options === undefined) return Object.create(null);
  if (options === null) throw new TypeError('Cannot convert undefined or null to object');
  return Object(options);
}

export function requireObject(options) {
  if (options === undefined) return Object.create(null);
  if (typeof options !== 'object' && typeof options !== 'function' || options === null) throw new TypeError(`Incorrect options information provided`);
  return options;
}

const slots = new WeakMap();
export function setSlots(object, value) { slots.set(object, value); return object; }
export function getSlots(object, kind, method) {
  const s = (typeof object === 'object' && object !== null) ? slots.get(object) : undefined;
  if (s === undefined || s.kind !== kind) {
    const shown = typeof object === 'object' && object !== null ? `#<${object.constructor?.name || 'Object'}>` : String(object);
    throw new TypeError(`Method Intl.${kind}.prototype.${method} called on incompatible receiver ${shown}`);
  }
  return s;
}

/** Defines a constructor of Intl: its methods and getters are not enumerable, as built-ins' are. */
export function defineIntl(constructor, name, length, methods, getters = {}) {
  Object.defineProperty(constructor, 'name', { value: name, configurable: true });
  Object.defineProperty(constructor, 'length', { value: length, configurable: true });
  Object.defineProperty(constructor, 'prototype', { writable: false, enumerable: false });
  for (const key of Object.keys(methods)) Object.defineProperty(constructor.prototype, key, { value: methods[key], writable: true, configurable: true });
  for (const key of Object.keys(getters)) Object.defineProperty(constructor.prototype, key, { get: getters[key], configurable: true });
  Object.defineProperty(constructor.prototype, Symbol.toStringTag, { value: `Intl.${name}`, configurable: true });
  Object.defineProperty(constructor, 'supportedLocalesOf', { value: supportedLocalesOf(`Intl.${name}`), writable: true, configurable: true });
  return constructor;
}

/** The object a constructor fills: `new` or, where the language allows it, a plain call. */
export function instanceFor(newTarget, constructor) {
  const proto = newTarget?.prototype;
  return Object.create(typeof proto === 'object' && proto !== null ? proto : constructor.prototype);
}

export const joinParts = parts => {
  let s = '';
  for (let i = 0; i < parts.length; i++) s += parts[i].value;
  return s;
};

/** Appends a part; neighbouring literals become one. */
export function push(parts, type, value) {
  if (value === '') return;
  const last = parts[parts.length - 1];
  if (type === 'literal' && last !== undefined && last.type === 'literal') last.value += value;
  else parts.push({ type, value });
}

/** Intl.Locale: the parts of a tag. Likely-subtag data is not carried: maximize and minimize say so. */
export function Locale(tag, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.Locale requires 'new'");
  if (typeof tag !== 'string' && (typeof tag !== 'object' || tag === null)) throw new TypeError('First argument to Intl.Locale constructor can\'t be empty or missing');
  const o = coerceOptions(options);
  let { base, keywords } = splitTag(canonicalTag(String(tag)));
  const m = TAG.exec(base);
  let [, language, script, region] = m;
  language = o.language === undefined ? language : String(o.language);
  script = o.script === undefined ? script?.slice(1) : String(o.script);
  region = o.region === undefined ? region?.slice(1) : String(o.region);
  base = canonicalTag([language, script, region].filter(Boolean).join('-') + m[4]);
  for (const [k, name] of [['ca', 'calendar'], ['co', 'collation'], ['hc', 'hourCycle'], ['kf', 'caseFirst'], ['nu', 'numberingSystem']]) if (o[name] !== undefined) keywords[k] = String(o[name]);
  if (o.numeric !== undefined) keywords.kn = o.numeric ? '' : 'false';
  const words = Object.keys(keywords).sort().map(k => '-' + k + (keywords[k] && '-' + keywords[k])).join('');
  return setSlots(instanceFor(new.target, Locale), { kind: 'Locale', tag: base + (words && '-u' + words), base, keywords });
}
const localeSlot = (o, m) => getSlots(o, 'Locale', m);
defineIntl(Locale, 'Locale', 1, {
  toString() { return localeSlot(this, 'toString').tag; },
  maximize() { throw new RangeError(`Intl.Locale.prototype.maximize: likely subtags of ${localeSlot(this, 'maximize').tag} are not available in this sandbox`); },
  minimize() { throw new RangeError(`Intl.Locale.prototype.minimize: likely subtags of ${localeSlot(this, 'minimize').tag} are not available in this sandbox`); },
}, {
  baseName() { return localeSlot(this, 'baseName').base; },
  language() { return localeSlot(this, 'language').base.split('-')[0]; },
  script() { return /-([A-Z][a-z]{3})(?=-|$)/.exec(localeSlot(this, 'script').base)?.[1]; },
  region() { return /-([A-Z]{2}|\d{3})(?=-|$)/.exec(localeSlot(this, 'region').base)?.[1]; },
  calendar() { return localeSlot(this, 'calendar').keywords.ca; },
  collation() { return localeSlot(this, 'collation').keywords.co; },
  hourCycle() { return localeSlot(this, 'hourCycle').keywords.hc; },
  caseFirst() { return localeSlot(this, 'caseFirst').keywords.kf; },
  numberingSystem() { return localeSlot(this, 'numberingSystem').keywords.nu; },
  numeric() { const v = localeSlot(this, 'numeric').keywords.kn; return v !== undefined && v !== 'false'; },
});
delete Locale.supportedLocalesOf;
