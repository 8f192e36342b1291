// Records the locale facts this folder formats with: runs under node 22 (full ICU, CLDR 48) and writes ../data/<locale>.js.
// Usage: node extract-locales.mjs [locale…]. Nothing of this file is part of the image.
import fs from 'node:fs';
import path from 'node:path';
import { ZONES } from '../data/zones.js';
import { CURRENCIES, UNITS, PATTERN_AXES, RANGE_AXES, TIME_AXES, combos } from './axes.mjs';

const OUT = path.join(import.meta.dirname, '../data');
const UTC = { timeZone: 'UTC' };
const nf = (l, o) => new Intl.NumberFormat(l, o);
const at = (...a) => new Date(Date.UTC(...a));

/** Interns strings; ids are written as two base-90 characters. */
class Pool {
  constructor() { this.list = []; this.map = new Map(); this.ids = ''; }
  add(s) {
    let i = this.map.get(s);
    if (i === undefined) { i = this.list.length; this.list.push(s); this.map.set(s, i); }
    this.ids += String.fromCharCode(40 + Math.floor(i / 80), 40 + (i % 80)).replace(/\\/g, '~');
  }
}

// ---- numbers
function numbers(l) {
  const p = (o, v) => nf(l, o).formatToParts(v);
  const find = (parts, type) => parts.find(x => x.type === type)?.value ?? '';
  const big = p({}, -1234567.5), exp = p({ notation: 'scientific' }, -1.5e-20);
  const shape = (o, v) => p(o, v).map(x => ({ integer: '#', group: '', decimal: '', fraction: '', currency: '¤', minusSign: '-', percentSign: '%', literal: x.value }[x.type] ?? x.value)).join('').replace(/#+/g, '#');
  const cur = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' }, wordy = { ...cur, currencyDisplay: 'code' };
  const out = {
    decimal: find(big, 'decimal'), group: find(big, 'group'), minus: find(big, 'minusSign'), plus: find(p({ signDisplay: 'always' }, 1), 'plusSign'),
    percent: find(p({ style: 'percent' }, 1), 'percentSign'), nan: find(p({}, NaN), 'nan'), infinity: find(p({}, Infinity), 'infinity'),
    exponent: find(exp, 'exponentSeparator'), approximately: find(nf(l).formatRangeToParts(1, 1), 'approximatelySign'),
    minGroup: nf(l).format(1234).length === 4 ? 2 : 1, indian: nf(l).format(1234567).length === 9 && nf(l).format(12345678).length === 11,
    pct: [shape({ style: 'percent' }, 0.5), shape({ style: 'percent' }, -0.5)],
    pctCompact: p({ style: 'percent', notation: 'compact' }, 0.05).map(x => (x.type === 'integer' ? '#' : x.type === 'literal' ? x.value : `{${x.value}}`)).join(''),
    indianAccounting: p({ ...cur, currencySign: 'accounting' }, 1234567)[1].value.length === 2,
    cur: [shape(cur, 5), shape(cur, -5)], acc: [shape({ ...cur, currencySign: 'accounting' }, 5), shape({ ...cur, currencySign: 'accounting' }, -5)],
    code: [shape(wordy, 5), shape(wordy, -5)], codeAcc: [shape({ ...wordy, currencySign: 'accounting' }, 5), shape({ ...wordy, currencySign: 'accounting' }, -5)],
    name: [shape({ ...cur, currencyDisplay: 'name' }, 5).replace('US dollars', '¤'), ''].slice(0, 1),
    range: find(nf(l).formatRangeToParts(1, 3), 'literal'), curRange: nf(l, { ...cur, maximumFractionDigits: 0 }).formatRangeToParts(3, 5).filter(x => x.source === 'shared' && x.type === 'literal').map(x => x.value).join('|'),
  };
  const symbols = {};
  for (const c of CURRENCIES) {
    const f = (d, v) => find(p({ style: 'currency', currency: c, currencyDisplay: d, maximumFractionDigits: 0 }, v), 'currency');
    symbols[c] = [f('symbol', 2), f('narrowSymbol', 2), f('name', 1), f('name', 2), f('name', 1e6) === f('name', 2) ? '' : f('name', 1e6)].join('|');
  }
  out.symbols = symbols;
  const compact = {};
  for (const [key, o] of [['short', { compactDisplay: 'short' }], ['long', { compactDisplay: 'long' }], ['cur', { ...cur, compactDisplay: 'short' }], ['curLong', { ...cur, compactDisplay: 'long' }]]) {
    compact[key] = [];
    for (let e = 3; e <= 20; e++) {
      const forms = [1, 2].map(lead => {
        const parts = p({ notation: 'compact', ...o }, lead * 10 ** e);
        const digits = parts.filter(x => x.type === 'integer').map(x => x.value).join('').length, i = parts.findIndex(x => x.type === 'compact');
        if (i < 0) return '';
        const text = parts.filter(x => x.type !== 'currency').map(x => (x.type === 'integer' || x.type === 'group' ? '#' : x.type === 'compact' ? `{${x.value}}` : x.value)).join('').replace(/#[#]*/, '#');
        return `${digits};${text.trim()}`;
      });
      compact[key].push(forms[0] === forms[1] ? forms[0] : forms.join('|'));
    }
  }
  out.compact = compact;
  const units = {};
  for (const u of UNITS) {
    units[u] = ['long', 'short', 'narrow'].map(unitDisplay => [1, 2, 1e6].map(v => p({ style: 'unit', unit: u, unitDisplay, notation: 'standard', useGrouping: false }, v)
      .map(x => (x.type === 'integer' ? '#' : x.type === 'unit' ? `{${x.value}}` : x.type === 'percentSign' ? `{${x.value}}` : x.value)).join(''))
      .reduce((a, s, i) => (i && s === a[a.length - 1] ? a : [...a, s]), []).join('|'));
    if (!u.includes('-per-') && u !== 'percent') {
      const base = (unit, unitDisplay) => nf(l, { style: 'unit', unit, unitDisplay }).format(2);
      units[u].push(['long', 'short', 'narrow'].map(d => { const a = base('megabyte', d), b = base('megabyte-per-' + u, d); return b.startsWith(a) ? b.slice(a.length) : '?'; }).join('|'));
    }
  }
  out.units = units;
  return out;
}

// ---- dates
function names(l) {
  const field = (o, d, type) => new Intl.DateTimeFormat(l, { ...UTC, ...o }).formatToParts(d).find(x => x.type === type)?.value;
  const widths = ['long', 'short', 'narrow'];
  return {
    months: widths.map(w => Array.from({ length: 12 }, (_, m) => field({ month: w, day: 'numeric' }, at(2023, m, 15), 'month'))),
    monthsAlone: widths.map(w => Array.from({ length: 12 }, (_, m) => field({ month: w }, at(2023, m, 15), 'month'))),
    weekdays: widths.map(w => Array.from({ length: 7 }, (_, d) => field({ weekday: w, day: 'numeric', month: 'numeric' }, at(2023, 0, 1 + d), 'weekday'))),
    weekdaysAlone: widths.map(w => Array.from({ length: 7 }, (_, d) => field({ weekday: w }, at(2023, 0, 1 + d), 'weekday'))),
    eras: widths.map(w => [at(-43, 2, 15), at(2023, 2, 15)].map(d => field({ era: w, year: 'numeric' }, d, 'era'))),
    ampm: [6, 18].map(h => field({ hour: 'numeric', hour12: true }, at(2023, 0, 1, h), 'dayPeriod') ?? ''),
    periods: widths.map(w => Array.from({ length: 24 }, (_, h) => field({ hour: 'numeric', minute: 'numeric', hour12: true, dayPeriod: w }, at(2023, 0, 1, h, 1), 'dayPeriod') ?? '')),
    noon: widths.map(w => [0, 12].map(h => field({ hour: 'numeric', hour12: true, dayPeriod: w }, at(2023, 0, 1, h), 'dayPeriod') ?? '')),
  };
}

/** A part as a pattern letter run; literals quoted by \u0001…\u0002 are not needed: letters stand between braces. */
function token(x, n, d) {
  const iso = d.toISOString(), v = x.value;
  const numeric = (letter, text, two) => (v === two && two !== text ? letter + letter : letter);
  switch (x.type) {
    case 'weekday': {
      const i = n.weekdays.findIndex(t => t[d.getUTCDay()] === v);
      return '{' + (i >= 0 ? ['EEEE', 'E', 'EEEEE'][i] : ['cccc', 'ccc', 'ccccc'][n.weekdaysAlone.findIndex(t => t[d.getUTCDay()] === v)]) + '}';
    }
    case 'era': return '{' + ['GGGG', 'G', 'GGGGG'][n.eras.findIndex(t => t.includes(v))] + '}';
    case 'year': return v.length === 2 ? '{yy}' : '{y}';
    case 'relatedYear': return '{y}';
    case 'month': {
      const m = d.getUTCMonth();
      if (v === String(m + 1)) return '{M}';
      if (v === iso.slice(5, 7)) return '{MM}';
      const i = n.months.findIndex(t => t[m] === v);
      return i >= 0 ? '{' + ['MMMM', 'MMM', 'MMMMM'][i] + '}' : '{' + ['LLLL', 'LLL', 'LLLLL'][n.monthsAlone.findIndex(t => t[m] === v)] + '}';
    }
    case 'day': return '{' + numeric('d', String(d.getUTCDate()), iso.slice(8, 10)) + '}';
    case 'hour': return v.length === 2 ? '{hh}' : '{h}';
    case 'minute': return v.length === 2 ? '{mm}' : '{m}';
    case 'second': return v.length === 2 ? '{ss}' : '{s}';
    case 'fractionalSecond': return '{S}';
    case 'dayPeriod': return n.ampm.includes(v) ? '{a}' : '{B}';
    case 'timeZoneName': return '{z}';
    default: return v;
  }
}

function dates(l) {
  const n = names(l);
  const d = at(2005, 1, 4, 6, 7, 8, 9); // a Friday; every number has one digit, and February has a short form everywhere
  const tokens = (o, when = d) => new Intl.DateTimeFormat(l, { ...UTC, ...o }).formatToParts(when).map(x => token(x, n, when)).join('');
  const date = new Pool(), time = new Pool();
  const alone = (o, text) => { // a month that stands alone where the two forms differ (July in en-AU)
    const w = ['long', 'short', 'narrow'].indexOf(o.month);
    if (w < 0 || n.months[w][6] === n.monthsAlone[w][6]) return text;
    const value = new Intl.DateTimeFormat(l, { ...UTC, ...o }).formatToParts(at(2005, 6, 4)).find(x => x.type === 'month')?.value;
    return value === n.monthsAlone[w][6] ? text.replaceAll('{MMM', '{LLL') : text;
  };
  for (const o of combos(PATTERN_AXES)) date.add(Object.keys(o).length ? (Object.keys(o).length === 1 && o.era ? '{G}' : alone(o, tokens(o))) : '');
  for (const o of combos(TIME_AXES)) time.add(Object.keys(o).filter(k => k !== 'hourCycle').length ? tokens({ ...o }) : '');
  const glue = (o, t = { hour: 'numeric', minute: 'numeric' }) => {
    const b = tokens(t), ab = tokens({ ...o, ...t }), i = ab.indexOf(b);
    if (i < 0) throw new Error(`${l}: glue of ${JSON.stringify(o)}: ${ab}`);
    const rest = [ab.slice(0, i), ab.slice(i + b.length)], [before, after] = rest;
    return (before ? before.replace(/^.*\}[^{} ,]*?(?=\p{P}? |$|\s)/u, '@D') : '') + '@T' + (after ? after.replace(/\{.*\}/, '@D') : '');
  };
  const ymd = month => ({ year: 'numeric', month, day: 'numeric' });
  const styles = ['full', 'long', 'medium', 'short'];
  const week = {};
  for (const hourCycle of ['h12', 'h23']) for (const [k, t] of [['h', { hour: 'numeric' }], ['m', { hour: 'numeric', minute: 'numeric' }], ['s', { hour: 'numeric', minute: 'numeric', second: 'numeric' }], ['z', { hour: 'numeric', minute: 'numeric', timeZoneName: 'short' }]]) week[hourCycle + k] = glue({ weekday: 'short' }, { ...t, hourCycle });
  const out = {
    ...n, date: [date.list, date.ids], time: [time.list, time.ids],
    glue: [glue({ weekday: 'long', ...ymd('long') }), glue(ymd('long')), glue(ymd('short')), glue(ymd('numeric'))], week,
    dateStyles: styles.map(dateStyle => tokens({ dateStyle })),
    timeStyles: ['h12', 'h23'].map(hourCycle => styles.map(timeStyle => tokens({ timeStyle, hourCycle }))),
    styleGlue: styles.map(dateStyle => { const a = tokens({ dateStyle }), b = tokens({ timeStyle: 'short' }); return tokens({ dateStyle, timeStyle: 'short' }).slice(a.length, -b.length); }),
    hourCycle: new Intl.DateTimeFormat(l, { hour: 'numeric' }).resolvedOptions().hourCycle,
    h12: new Intl.DateTimeFormat(l, { hour: 'numeric', hour12: true }).resolvedOptions().hourCycle,
  };
  out.ranges = ranges(l, n);
  out.zones = zones(l);
  return out;
}

function ranges(l, n) {
  const pool = new Pool();
  const side = { startRange: '<', endRange: '>', shared: '=' };
  const record = (o, a, b) => {
    const parts = new Intl.DateTimeFormat(l, { ...UTC, ...o }).formatRangeToParts(a, b);
    let s = '', last = '';
    for (const x of parts) { if (x.source !== last) { s += '\u0001' + side[x.source]; last = x.source; } s += token(x, n, x.source === 'endRange' ? b : a); }
    return s;
  };
  for (const o of combos(RANGE_AXES)) {
    if (!Object.keys(o).length) { for (let i = 0; i < 3; i++) pool.add(''); continue; }
    const a = at(2005, 1, 4);
    for (const b of [at(2006, 8, 5), at(2005, 8, 5), at(2005, 1, 5)]) {
      const seen = o.day || o.weekday ? 3 : o.month ? 2 : 1;
      const diff = b.getUTCFullYear() !== 2005 ? 1 : b.getUTCMonth() !== 1 ? 2 : 3;
      pool.add(diff > seen ? '' : record(o, a, b));
    }
  }
  const time = new Pool();
  for (const hourCycle of ['h12', 'h23']) for (const t of [{ hour: 'numeric' }, { hour: '2-digit' }, { hour: 'numeric', minute: 'numeric' }, { hour: '2-digit', minute: '2-digit' }]) for (const b of [at(2005, 2, 4, 17, 8), at(2005, 2, 4, 8, 8), at(2005, 2, 4, 6, 8)]) time.add(record({ ...t, hourCycle }, at(2005, 2, 4, 6, 7), b));
  return { date: [pool.list, pool.ids], time: [time.list, time.ids], fallback: new Intl.DateTimeFormat(l, { ...UTC, hour: 'numeric', minute: 'numeric', second: 'numeric' }).formatRangeToParts(at(2005, 2, 4, 6), at(2005, 2, 4, 8)).filter(x => x.source === 'shared').map(x => x.value).join('') };
}

/** A moment of the last summer time of a zone that keeps none now. */
function lastSummer(changes, standard) {
  let minute = Date.UTC(1840, 0, 1) / 60000, found;
  for (const item of changes.split(' ').slice(1)) {
    const [delta, seconds] = item.split(':');
    minute += parseInt(delta, 36);
    if (minute > 0 && parseInt(seconds, 36) === standard + 3600) found = minute * 60000 + 864e5;
  }
  return found;
}

/** Zone names of the locale, in the order of ../data/zones.js; an empty name is an offset. */
function zones(l) {
  const name = (zone, style, ms) => new Intl.DateTimeFormat(l, { timeZone: zone, timeZoneName: style, hour: 'numeric' }).formatToParts(ms).find(x => x.type === 'timeZoneName').value;
  const pool = new Pool(), winter = Date.UTC(2024, 0, 1), summer = Date.UTC(2024, 6, 1);
  const offset = (zone, ms) => { const p = {}; for (const { type, value } of new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', day: 'numeric', hour: 'numeric', minute: 'numeric', month: 'numeric', year: 'numeric' }).formatToParts(ms)) p[type] = +value; return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute) - ms; };
  const isOffset = v => /^(GMT|UTC)?[+\-−]\d|^(GMT|UTC)[+\-−]/.test(v);
  for (const line of ['UTC\t', ...ZONES.split('\n')]) {
    const zone = line.slice(0, line.indexOf('\t'));
    let [std, dst] = offset(zone, winter) <= offset(zone, summer) ? [winter, summer] : [summer, winter];
    if (offset(zone, std) === offset(zone, dst)) dst = lastSummer(line.slice(line.indexOf('\t') + 1), offset(zone, std) / 1000) ?? dst;
    pool.add([name(zone, 'short', std), name(zone, 'short', dst), name(zone, 'long', std), name(zone, 'long', dst), name(zone, 'shortGeneric', std), name(zone, 'longGeneric', std)].map(v => (isOffset(v) ? '' : v)).join('|'));
  }
  const plus = name('+01:00', 'shortOffset', 0), minus = name('-01:00', 'shortOffset', 0);
  return { names: [pool.list, pool.ids], gmt: [plus.slice(0, -1), minus.slice(0, -1), name('Africa/Abidjan', 'shortOffset', 0), name('Africa/Abidjan', 'longOffset', 0)] };
}

// ---- lists, relative times
function lists(l) {
  const out = {};
  for (const type of ['conjunction', 'disjunction', 'unit']) for (const style of ['long', 'short', 'narrow']) {
    const f = items => new Intl.ListFormat(l, { type, style }).formatToParts(items).filter(x => x.type === 'literal').map(x => x.value);
    const four = f(['a', 'b', 'c', 'd']);
    out[type + style] = [f(['a', 'b'])[0], four[0], four[1], four[2]].map(x => x ?? '');
  }
  return out;
}

function relative(l) {
  const out = {};
  for (const unit of ['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second']) for (const style of ['long', 'short', 'narrow']) {
    const f = (v, numeric) => new Intl.RelativeTimeFormat(l, { style, numeric }).formatToParts(v, unit).map(x => (x.type === 'literal' ? x.value : '#')).join('').replace(/#+/, '#');
    const dedupe = a => a.reduce((r, s, i) => (i && s === r[r.length - 1] ? r : [...r, s]), []).join('|');
    const words = [];
    for (let v = -2; v <= 2; v++) { const w = f(v, 'auto'); words.push(w.includes('#') ? '' : w); }
    const zero = f(-0, 'auto');
    out[unit + style] = [dedupe([1, 2, 1e6].map(v => f(-v))), dedupe([1, 2, 1e6].map(v => f(v))), words.join('|') + (zero === words[2] ? '' : `|${zero}`)];
  }
  return out;
}

const targets = process.argv.slice(2);
for (const l of targets) {
  const data = { number: numbers(l), date: dates(l), list: lists(l), relative: relative(l) };
  const sections = Object.entries(data).map(([k, v]) => `export const ${k} = ${JSON.stringify(JSON.stringify(v))};`).join('\n');
  fs.writeFileSync(path.join(OUT, `${l}.js`), `// Facts of CLDR 48 for "${l}", recorded from node 22 by ../tools/extract-locales.mjs: JSON texts, read when first used.\n${sections}\n`);
  console.log(l, sections.length);
}
