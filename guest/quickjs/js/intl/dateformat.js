// Intl.DateTimeFormat. Patterns come from recorded tables; letters are those of CLDR, in braces.
import { localeData, resolveLocale, coerceOptions, getOption, getNumberOption, setSlots, getSlots, defineIntl, instanceFor, joinParts, push } from './core.js';
import { checkNumberingSystem } from './numberformat.js';
import { canonicalZone, offsetAt, zoneName } from './zones.js';

const OWNER = 'Intl.DateTimeFormat';
const TEXT = ['narrow', 'short', 'long'], DIGITS = ['2-digit', 'numeric'];
const FIELDS = {
  weekday: TEXT, era: TEXT, year: DIGITS, month: ['2-digit', 'numeric', ...TEXT], day: DIGITS, dayPeriod: TEXT,
  hour: DIGITS, minute: DIGITS, second: DIGITS, fractionalSecondDigits: undefined,
  timeZoneName: ['short', 'long', 'shortOffset', 'longOffset', 'shortGeneric', 'longGeneric'],
};
const STYLES = ['full', 'long', 'medium', 'short'];
const DATE_FIELDS = ['weekday', 'year', 'month', 'day'], TIME_FIELDS = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];
// The axes of the recorded tables (tools/axes.mjs).
const DATE_AXES = [['weekday', ['long', 'short', 'narrow']], ['era', TEXT.toReversed()], ['year', DIGITS.toReversed()], ['month', ['numeric', '2-digit', 'long', 'short', 'narrow']], ['day', DIGITS.toReversed()]];
const RANGE_AXES = DATE_AXES.filter(([name]) => name !== 'era');
const TIME_AXES = [['hour', DIGITS.toReversed()], ['minute', DIGITS.toReversed()], ['second', DIGITS.toReversed()], ['fractionalSecondDigits', [3]], ['dayPeriod', ['short']], ['timeZoneName', ['short', 'long']]];

export function DateTimeFormat(locales, options) {
  return setSlots(instanceFor(new.target, DateTimeFormat), makeDateSlots(locales, options, 'any', 'date'));
}

export function makeDateSlots(locales, options, required, defaults) {
  const { locale, base, keywords } = resolveLocale(locales, ['hc']);
  const o = coerceOptions(options);
  const data = localeData(base).date;
  const s = { kind: 'DateTimeFormat', locale, base, data };
  const calendar = getOption(o, 'calendar', 'string', undefined, undefined, OWNER);
  if (calendar !== undefined) {
    if (!/^[a-z\d]{3,8}(-[a-z\d]{3,8})*$/i.test(calendar)) throw new RangeError(`Invalid calendar : ${calendar}`);
    if (!['gregory', 'gregorian'].includes(calendar.toLowerCase())) throw new RangeError(`Unsupported calendar: ${calendar} (this sandbox formats with gregory)`);
  }
  checkNumberingSystem(o);
  const hour12 = getOption(o, 'hour12', 'boolean', undefined, undefined, OWNER);
  let hourCycle = getOption(o, 'hourCycle', 'string', ['h11', 'h12', 'h23', 'h24'], undefined, OWNER);
  if (hour12 !== undefined) hourCycle = undefined;
  hourCycle ??= ['h11', 'h12', 'h23', 'h24'].includes(keywords.hc) && hour12 === undefined ? keywords.hc : undefined;
  if (!(hourCycle !== undefined && hourCycle === keywords.hc)) s.locale = base;
  s.timeZone = o.timeZone === undefined ? 'UTC' : canonicalZone(o.timeZone);
  const fields = {};
  for (const name of Object.keys(FIELDS)) {
    const v = name === 'fractionalSecondDigits' ? getNumberOption(o, name, 1, 3, undefined) : getOption(o, name, 'string', FIELDS[name], undefined, OWNER);
    if (v !== undefined) fields[name] = v;
  }
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', OWNER);
  getOption(o, 'formatMatcher', 'string', ['basic', 'best fit'], 'best fit', OWNER);
  const dateStyle = getOption(o, 'dateStyle', 'string', STYLES, undefined, OWNER), timeStyle = getOption(o, 'timeStyle', 'string', STYLES, undefined, OWNER);
  s.cycle = hour12 === undefined ? hourCycle ?? data.hourCycle : hour12 ? data.h12 : 'h23';
  if (dateStyle !== undefined || timeStyle !== undefined) {
    if (Object.keys(fields).length > 0) throw new TypeError('Invalid option : option');
    if (required === 'date' && timeStyle !== undefined) throw new TypeError('Invalid option : timeStyle');
    if (required === 'time' && dateStyle !== undefined) throw new TypeError('Invalid option : dateStyle');
    Object.assign(s, { dateStyle, timeStyle, ...stylePattern(data, dateStyle, timeStyle, s.cycle) });
  } else {
    let needDefaults = true;
    if (required !== 'time') needDefaults &&= !DATE_FIELDS.some(f => fields[f] !== undefined);
    if (required !== 'date') needDefaults &&= !TIME_FIELDS.some(f => fields[f] !== undefined);
    if (needDefaults && defaults !== 'time') fields.year = fields.month = fields.day = 'numeric';
    if (needDefaults && defaults !== 'date') {
      fields.hour = fields.minute = fields.second = 'numeric';
      s.cycle = { h11: 'h12', h24: 'h23' }[s.cycle] ?? s.cycle; // as V8 does where it adds the time itself
    }
    Object.assign(s, fieldPattern(data, fields, s.cycle));
  }
  s.fields = fields;
  return s;
}

const is12 = cycle => cycle === 'h12' || cycle === 'h11';
function lookUp([list, ids], index) {
  const code = i => { const c = ids.charCodeAt(i); return (c === 126 ? 92 : c) - 40; };
  return list[code(2 * index) * 80 + code(2 * index + 1)];
}

function indexOf(axes, fields, start) {
  let i = start;
  for (const [name, values] of axes) {
    const v = fields[name];
    i = i * (values.length + 1) + (v === undefined ? 0 : values.length === 1 ? 1 : values.indexOf(v) + 1);
  }
  return i;
}

/** Date and time patterns for chosen fields, and what joins them. */
function fieldPattern(data, fields, cycle) {
  const hasDate = fields.era !== undefined || DATE_FIELDS.some(f => fields[f] !== undefined);
  const hasTime = fields.timeZoneName !== undefined || TIME_FIELDS.some(f => fields[f] !== undefined);
  const lone = fields.era !== undefined && !DATE_FIELDS.some(f => fields[f] !== undefined) && !hasTime;
  // a weekday next to a time has forms of its own: the pattern's own digits, the weekday as in a sentence
  const alone = fields.weekday !== undefined && fields.hour !== undefined && fields.era === undefined && fields.year === undefined && fields.month === undefined && fields.day === undefined;
  let date = hasDate ? lookUp(data.date, indexOf(DATE_AXES, lone ? { ...fields, year: 'numeric', month: 'numeric', day: 'numeric' } : fields, 0)) : '';
  if (alone && fields.timeZoneName === undefined && (fields.minute !== undefined || is12(cycle))) date = date.replace(/c+/, letters => 'E'.repeat(letters.length));
  let glue = '';
  if (hasDate && hasTime) {
    if (alone) glue = data.week[(is12(cycle) ? 'h12' : 'h23') + (fields.timeZoneName ? 'z' : fields.second ? 's' : fields.minute ? 'm' : 'h')];
    else glue = data.glue[fields.month === 'long' ? (fields.weekday ? 0 : 1) : fields.month === 'short' ? 2 : 3];
  }
  return { date, time: hasTime ? timePattern(data, alone ? plainDigits(fields) : fields, cycle) : '', glue };
}

/** Minutes and seconds as the recorded pattern has them. */
const plainDigits = fields => ({ ...fields, minute: fields.minute && 'numeric', second: fields.second && 'numeric' });

function timePattern(data, fields, cycle) {
  // the zone alone is no row of its own: there node adds the date
  if (!TIME_FIELDS.some(f => fields[f] !== undefined)) return '{z}';
  const zone = fields.timeZoneName && (fields.timeZoneName === 'long' ? 'long' : 'short'); // the other styles have the short one's form
  const row = timeZoneName => lookUp(data.time, indexOf(TIME_AXES, { ...fields, timeZoneName }, is12(cycle) ? 0 : 1));
  const withZone = row(zone);
  if (fields.timeZoneName !== 'longOffset' || fields.hour === undefined || fields.minute === undefined || fields.second === undefined) return withZone;
  return withZone.startsWith('{z') ? '{z}' + row() : row() + ' {z}'; // set beside the time of day, as it is without a zone
}

function stylePattern(data, dateStyle, timeStyle, cycle) {
  const d = STYLES.indexOf(dateStyle), t = STYLES.indexOf(timeStyle);
  const date = d < 0 ? '' : data.dateStyles[d], time = t < 0 ? '' : data.timeStyles[is12(cycle) ? 0 : 1][t];
  return { date, time, glue: d < 0 || t < 0 ? '' : `@D${data.styleGlue[d]}@T`, zoneStyle: timeStyle === 'full' ? 'long' : 'short' };
}

const whole = s => (s.glue === '' ? s.date + s.time : s.glue.replace('@D', () => s.date).replace('@T', () => s.time));

/** The calendar fields of an instant in the zone. */
function localFields(s, ms) {
  const d = new Date(ms + offsetAt(s.timeZone, ms) * 1000);
  return { ms, year: d.getUTCFullYear(), month: d.getUTCMonth(), day: d.getUTCDate(), weekday: d.getUTCDay(), hour: d.getUTCHours(), minute: d.getUTCMinutes(), second: d.getUTCSeconds(), milli: d.getUTCMilliseconds() };
}

const two = n => (n < 10 ? '0' + n : String(n));
const width = letters => (letters.length === 4 ? 0 : letters.length === 5 ? 2 : 1);
const WIDTH = { long: 0, short: 1, narrow: 2 };

function field(s, letters, f) {
  const { data, fields } = s;
  switch (letters[0]) {
    case 'E': return ['weekday', data.weekdays[width(letters)][f.weekday]];
    case 'c': return ['weekday', data.weekdaysAlone[width(letters)][f.weekday]];
    case 'G': return ['era', data.eras[WIDTH[fields.era] ?? width(letters)][f.year > 0 ? 1 : 0]];
    case 'y': { const y = f.year > 0 ? f.year : 1 - f.year; return ['year', letters === 'yy' ? two(y % 100) : String(y)]; }
    case 'M': return ['month', letters === 'M' ? String(f.month + 1) : letters === 'MM' ? two(f.month + 1) : data.months[width(letters)][f.month]];
    case 'L': return ['month', data.monthsAlone[width(letters)][f.month]];
    case 'd': return ['day', letters === 'd' ? String(f.day) : two(f.day)];
    case 'h': {
      const h = s.cycle === 'h12' ? f.hour % 12 || 12 : s.cycle === 'h11' ? f.hour % 12 : s.cycle === 'h24' ? f.hour || 24 : f.hour;
      return ['hour', letters === 'h' ? String(h) : two(h)];
    }
    case 'm': return ['minute', letters === 'm' ? String(f.minute) : two(f.minute)];
    case 's': return ['second', letters === 's' ? String(f.second) : two(f.second)];
    case 'S': return ['fractionalSecond', String(f.milli).padStart(3, '0').slice(0, fields.fractionalSecondDigits ?? 3)];
    case 'a': return ['dayPeriod', data.ampm[f.hour < 12 ? 0 : 1]];
    case 'B': {
      const w = WIDTH[fields.dayPeriod] ?? 1;
      const exact = f.hour % 12 === 0 && (f.minute === 0 || fields.minute === undefined) && (f.second === 0 || fields.second === undefined);
      return ['dayPeriod', exact ? data.noon[w][f.hour / 12] : data.periods[w][f.hour]];
    }
    default: return ['timeZoneName', zoneName(s.timeZone, f.ms, fields.timeZoneName ?? s.zoneStyle, data.zones)];
  }
}

function expand(parts, s, pattern, f) {
  for (let i = 0; i < pattern.length;) {
    const open = pattern.indexOf('{', i);
    if (open < 0) { push(parts, 'literal', pattern.slice(i)); break; }
    push(parts, 'literal', pattern.slice(i, open));
    const close = pattern.indexOf('}', open), [type, value] = field(s, pattern.slice(open + 1, close), f);
    push(parts, type, value);
    i = close + 1;
  }
}

function timeValue(date) {
  const ms = date === undefined ? Date.now() : Number(date);
  if (!(Math.abs(ms) <= 8.64e15)) throw new RangeError('Invalid time value');
  return Math.trunc(ms);
}

export function formatDateParts(s, date) {
  const parts = [];
  expand(parts, s, s.pattern ??= whole(s), localFields(s, timeValue(date)));
  return parts;
}

/** As V8 does, the narrow no-break space of ICU leaves format() as a space; parts and ranges keep it. */
export const formatDate = (s, date) => joinParts(formatDateParts(s, date)).replaceAll('\u202f', ' ');

// ---- ranges

/** Which fields a pattern shows, in the words of the options. */
function shownFields(pattern) {
  const shown = {};
  for (const [, letters] of pattern.matchAll(/\{(\w+)\}/g)) {
    const text = ['long', 'short', 'narrow'][width(letters)], digits = letters.length === 2 ? '2-digit' : 'numeric';
    switch (letters[0]) {
      case 'E': case 'c': shown.weekday = text; break;
      case 'G': shown.era = text; break;
      case 'y': shown.year = digits; break;
      case 'M': case 'L': shown.month = letters.length < 3 ? digits : text; break;
      case 'd': shown.day = digits; break;
      case 'h': shown.hour = digits; break;
      case 'm': shown.minute = digits; break;
      case 's': shown.second = digits; break;
      case 'S': shown.fractionalSecondDigits = 3; break;
      case 'B': shown.dayPeriod = 'short'; break;
      case 'z': shown.timeZoneName = 'short'; break;
      default:
    }
  }
  return shown;
}

const SOURCES = { '<': 'startRange', '>': 'endRange', '=': 'shared' };
/** Expands a recorded range pattern: \u0001 and a mark begin what belongs to the start, the end or both. */
function expandRange(parts, s, pattern, a, b) {
  for (const piece of pattern.split('\u0001').slice(1)) {
    const list = [], source = SOURCES[piece[0]];
    expand(list, s, piece.slice(1), source === 'endRange' ? b : a);
    for (const p of list) parts.push({ type: p.type, value: p.value, source });
  }
}

function rangeParts(s, start, end) {
  if (start === undefined || end === undefined) throw new TypeError('Invalid time value');
  const a = localFields(s, timeValue(start)), b = localFields(s, timeValue(end));
  const mark = (list, source) => list.map(p => ({ type: p.type, value: p.value, source }));
  const one = formatDateParts(s, a.ms), other = formatDateParts(s, b.ms);
  const { ranges } = s.data, fallback = { type: 'literal', value: ranges.fallback, source: 'shared' };
  const both = (x, y) => [...mark(x, 'startRange'), fallback, ...mark(y, 'endRange')];
  const dateDiff = a.year !== b.year ? 0 : a.month !== b.month ? 1 : a.day !== b.day ? 2 : 3;
  const alike = joinParts(one) === joinParts(other);
  if (dateDiff === 3 && alike) return mark(one, 'shared');
  const shownDate = shownFields(s.date);
  if (s.time === '') {
    const pattern = shownDate.era === undefined ? lookUp(ranges.date, indexOf(RANGE_AXES, shownDate, 0) * 3 + dateDiff) : '';
    if (!pattern) return alike ? mark(one, 'shared') : both(one, other);
    const parts = [];
    expandRange(parts, s, pattern, a, b);
    return parts;
  }
  if (dateDiff < 3) {
    // a difference that is not shown is made visible, and what is smaller with it
    const missing = s.date === '' ? ['year', 'month', 'day'] : shownDate[['year', 'month', 'day'][dateDiff]] === undefined ? ['year', 'month', 'day'].slice(dateDiff).filter(f => shownDate[f] === undefined) : [];
    if (missing.length === 0) return both(one, other);
    const fields = s.dateStyle || s.timeStyle ? { ...shownDate, ...shownFields(s.time) } : { ...s.fields };
    for (const f of missing) fields[f] = 'numeric';
    for (const f of ['hour', 'minute', 'second']) if (fields[f] !== undefined) fields[f] = 'numeric';
    const full = { ...s, pattern: undefined, ...fieldPattern(s.data, fields, s.cycle) };
    return both(formatDateParts(full, a.ms), formatDateParts(full, b.ms));
  }
  const shown = shownFields(s.time);
  const simple = shown.hour !== undefined && shown.second === undefined && shown.dayPeriod === undefined && shown.timeZoneName === undefined;
  const parts = [];
  if (!simple) {
    for (const [f, source] of [[a, 'startRange'], [b, 'endRange']]) {
      const list = [];
      expand(list, s, s.time, f);
      if (parts.length) parts.push(fallback);
      parts.push(...mark(list, source));
    }
  }
  const diff = is12(s.cycle) && (a.hour < 12) !== (b.hour < 12) ? 0 : a.hour !== b.hour ? 1 : 2;
  const form = (shown.minute === undefined ? 0 : 2) + (shown.hour === '2-digit' ? 1 : 0);
  if (simple) expandRange(parts, s, lookUp(ranges.time, ((is12(s.cycle) ? 0 : 4) + form) * 3 + diff), a, b);
  if (s.date === '') return parts;
  const [before, after] = s.glue.replace(s.data.glue[1], s.data.glue[2]).replace(s.data.glue[0], s.data.glue[2]).split('@T').map(t => { const list = []; expand(list, s, t.replace('@D', () => s.date), a); return mark(list, 'shared'); });
  return [...before, ...parts, ...after];
}

// ---- what programs see

const slot = (o, m) => getSlots(o, 'DateTimeFormat', m);
defineIntl(DateTimeFormat, 'DateTimeFormat', 0, {
  formatToParts(date) { return formatDateParts(slot(this, 'formatToParts'), date); },
  formatRange(start, end) {
    const parts = rangeParts(slot(this, 'formatRange'), start, end), text = joinParts(parts);
    return parts.every(p => p.source === 'shared') ? text.replaceAll('\u202f', ' ') : text;
  },
  formatRangeToParts(start, end) { return rangeParts(slot(this, 'formatRangeToParts'), start, end); },
  resolvedOptions() {
    const s = slot(this, 'resolvedOptions'), shown = shownFields(whole(s));
    const out = { locale: s.locale, calendar: 'gregory', numberingSystem: 'latn', timeZone: s.timeZone };
    if (shown.hour !== undefined) Object.assign(out, { hourCycle: s.cycle, hour12: is12(s.cycle) });
    if (s.dateStyle === undefined && s.timeStyle === undefined) {
      for (const k of ['weekday', 'era', 'year', 'month', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits', 'timeZoneName']) {
        const v = k === 'era' || k === 'dayPeriod' || k === 'fractionalSecondDigits' || k === 'timeZoneName' ? s.fields[k] : shown[k];
        if (v !== undefined) out[k] = v;
      }
    } else {
      if (s.dateStyle !== undefined) out.dateStyle = s.dateStyle;
      if (s.timeStyle !== undefined) out.timeStyle = s.timeStyle;
    }
    return out;
  },
}, {
  format() {
    const s = slot(this, 'format');
    if (s.bound === undefined) {
      s.bound = { f: date => formatDate(s, date) }.f;
      Object.defineProperty(s.bound, 'name', { value: '' });
    }
    return s.bound;
  },
});
