// Intl.DisplayNames: English names of regions, languages, scripts and currencies.
import { localeData, resolveLocale, requireObject, getOption, setSlots, getSlots, defineIntl, instanceFor } from './core.js';
import { REGIONS, LANGUAGES, SCRIPTS, CURRENCIES } from './data/names.js';

const TABLES = { region: REGIONS, language: LANGUAGES, script: SCRIPTS, currency: CURRENCIES };
const maps = {};
function lookUp(type, code) {
  maps[type] ??= new Map(TABLES[type].split('\n').map(line => line.split('\t')));
  return maps[type].get(code);
}

export function DisplayNames(locales, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.DisplayNames requires 'new'");
  const object = instanceFor(new.target, DisplayNames);
  const { locale, base } = resolveLocale(locales);
  if (options === undefined) throw new TypeError('invalid_argument');
  const o = requireObject(options), owner = 'Intl.DisplayNames';
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', owner);
  const style = getOption(o, 'style', 'string', ['narrow', 'short', 'long'], 'long', owner);
  const type = getOption(o, 'type', 'string', ['language', 'region', 'script', 'currency', 'calendar', 'dateTimeField'], undefined, owner);
  if (type === undefined) throw new TypeError('invalid_argument');
  const fallback = getOption(o, 'fallback', 'string', ['code', 'none'], 'code', owner);
  const languageDisplay = getOption(o, 'languageDisplay', 'string', ['dialect', 'standard'], 'dialect', owner);
  if (type === 'calendar' || type === 'dateTimeField') throw new RangeError(`Unsupported type of Intl.DisplayNames: ${type} (this sandbox knows language, region, script and currency)`);
  if ((type !== 'currency' || style === 'long') && !base.startsWith('en')) throw new RangeError(`Unsupported locale for Intl.DisplayNames of type ${type}: ${base} (this sandbox has the names in English)`);
  return setSlots(object, { kind: 'DisplayNames', locale, base, style, type, fallback, languageDisplay });
}

function nameOf(s, code) {
  switch (s.type) {
    case 'currency': {
      if (!/^[a-z]{3}$/i.test(code)) throw new RangeError('invalid_argument');
      const key = code.toUpperCase(), record = localeData(s.base).number.symbols[key];
      const [symbol, narrow] = record?.split('|') ?? [];
      return [key, s.style === 'long' ? lookUp('currency', key) : s.style === 'short' ? symbol : narrow];
    }
    case 'region': {
      if (!/^([a-z]{2}|\d{3})$/i.test(code)) throw new RangeError('invalid_argument');
      return [code.toUpperCase(), lookUp('region', code.toUpperCase())];
    }
    case 'script': {
      if (!/^[a-z]{4}$/i.test(code)) throw new RangeError('invalid_argument');
      const key = code[0].toUpperCase() + code.slice(1).toLowerCase();
      return [key, lookUp('script', key)];
    }
    default: {
      const [key] = Intl.getCanonicalLocales(code), [language, ...rest] = key.split('-');
      const whole = s.languageDisplay === 'dialect' || rest.length === 0 ? lookUp('language', key) : undefined;
      if (whole !== undefined) return [key, whole];
      const base = lookUp('language', language), parts = rest.map(p => lookUp('script', p) ?? lookUp('region', p) ?? p);
      return [key, base && (rest.length ? `${base} (${parts.join(', ')})` : base)];
    }
  }
}

defineIntl(DisplayNames, 'DisplayNames', 2, {
  of(code) {
    const s = getSlots(this, 'DisplayNames', 'of'), [key, name] = nameOf(s, String(code));
    return name ?? (s.fallback === 'code' ? key : undefined);
  },
  resolvedOptions() {
    const { locale, style, type, fallback, languageDisplay } = getSlots(this, 'DisplayNames', 'resolvedOptions');
    return type === 'language' ? { locale, style, type, fallback, languageDisplay } : { locale, style, type, fallback };
  },
});
