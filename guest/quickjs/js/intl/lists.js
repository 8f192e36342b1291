// Intl.ListFormat and Intl.RelativeTimeFormat.
import { localeData, resolveLocale, requireObject, coerceOptions, getOption, setSlots, getSlots, defineIntl, instanceFor, joinParts, push } from './core.js';
import { checkNumberingSystem, formatNumberParts, makeNumberSlots } from './numberformat.js';
import { pluralOf, chooseForm } from './plural.js';

export function ListFormat(locales, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.ListFormat requires 'new'");
  const object = instanceFor(new.target, ListFormat);
  const { locale, base } = resolveLocale(locales);
  const o = requireObject(options), owner = 'Intl.ListFormat';
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', owner);
  const type = getOption(o, 'type', 'string', ['conjunction', 'disjunction', 'unit'], 'conjunction', owner);
  const style = getOption(o, 'style', 'string', ['long', 'short', 'narrow'], 'long', owner);
  return setSlots(object, { kind: 'ListFormat', locale, base, type, style, joints: localeData(base).list[type + style] });
}

function listParts(s, list) {
  const items = [];
  if (list !== undefined) {
    for (const item of list) {
      if (typeof item !== 'string') throw new TypeError(`Iterable yielded ${String(item)} which is not a string`);
      items.push(item);
    }
  }
  const [pair, first, middle, last] = s.joints, parts = [], n = items.length;
  const spanish = s.base.startsWith('es') && s.type !== 'unit';
  for (let i = 0; i < n; i++) {
    if (i > 0) {
      let joint = n === 2 ? pair : i === n - 1 ? last : i === 1 ? first : middle;
      // es: "y" before an i sound is "e", "o" before an o sound is "u"
      if (spanish && i === n - 1 && (s.type === 'conjunction' ? /^(i|hi(?!e|a))/i : /^(o|ho|8|11$)/i).test(items[i])) joint = joint.replace(/[yo] $/, c => (c[0] === 'y' ? 'e ' : 'u '));
      push(parts, 'literal', joint);
    }
    parts.push({ type: 'element', value: items[i] });
  }
  return parts;
}

defineIntl(ListFormat, 'ListFormat', 0, {
  format(list) { return joinParts(listParts(getSlots(this, 'ListFormat', 'format'), list)); },
  formatToParts(list) { return listParts(getSlots(this, 'ListFormat', 'formatToParts'), list); },
  resolvedOptions() {
    const { locale, type, style } = getSlots(this, 'ListFormat', 'resolvedOptions');
    return { locale, type, style };
  },
});

const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'];

export function RelativeTimeFormat(locales, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.RelativeTimeFormat requires 'new'");
  const object = instanceFor(new.target, RelativeTimeFormat);
  const { locale, base } = resolveLocale(locales, ['nu']);
  const o = coerceOptions(options), owner = 'Intl.RelativeTimeFormat';
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', owner);
  checkNumberingSystem(o);
  const style = getOption(o, 'style', 'string', ['long', 'short', 'narrow'], 'long', owner);
  const numeric = getOption(o, 'numeric', 'string', ['always', 'auto'], 'always', owner);
  return setSlots(object, { kind: 'RelativeTimeFormat', locale, base, style, numeric, data: localeData(base).relative, number: makeNumberSlots(base) });
}

function relativeParts(s, value, unit, method) {
  const v = Number(value), text = String(unit), one = text.endsWith('s') ? text.slice(0, -1) : text;
  if (!UNITS.includes(one)) throw new RangeError(`Invalid unit argument for Intl.RelativeTimeFormat.prototype.${method}() '${text}'`);
  if (!Number.isFinite(v)) throw new RangeError(`Value need to be finite number for Intl.RelativeTimeFormat.prototype.${method}()`);
  const [past, future, words] = s.data[one + s.style];
  if (s.numeric === 'auto' && Number.isInteger(v) && Math.abs(v) <= 2) {
    const list = words.split('|'), word = list[Object.is(v, -0) && list.length > 5 ? 5 : v + 2];
    if (word !== '') return [{ type: 'literal', value: word }];
  }
  const number = formatNumberParts(s.number, Math.abs(v));
  const digits = type => number.filter(p => p.type === type).map(p => p.value).join('');
  const pattern = chooseForm(v < 0 || Object.is(v, -0) ? past : future, pluralOf(s.base, digits('integer'), digits('fraction')));
  const parts = [], at = pattern.indexOf('#');
  push(parts, 'literal', pattern.slice(0, at));
  for (const p of number) parts.push({ type: p.type, value: p.value, unit: one });
  push(parts, 'literal', pattern.slice(at + 1));
  return parts;
}

defineIntl(RelativeTimeFormat, 'RelativeTimeFormat', 0, {
  format(value, unit) { return joinParts(relativeParts(getSlots(this, 'RelativeTimeFormat', 'format'), value, unit, 'format')); },
  formatToParts(value, unit) { return relativeParts(getSlots(this, 'RelativeTimeFormat', 'formatToParts'), value, unit, 'formatToParts'); },
  resolvedOptions() {
    const { locale, style, numeric } = getSlots(this, 'RelativeTimeFormat', 'resolvedOptions');
    return { locale, style, numeric, numberingSystem: 'latn' };
  },
});
