// Time zones: ids, offsets at an instant, and names.
import { ZONES, LINKS } from './data/zones.js';

let table, upper, order;
/** Names → record text; read when a zone other than UTC is first named. */
function load() {
  table = new Map();
  order = new Map([['UTC', 0]]);
  upper = new Map([['UTC', 'UTC']]);
  for (const line of ZONES.split('\n')) {
    const tab = line.indexOf('\t'), id = line.slice(0, tab);
    table.set(id, line.slice(tab + 1));
    order.set(id, order.size);
    upper.set(id.toUpperCase(), id);
  }
  for (const line of LINKS.split('\n')) {
    const [link, target] = line.split(' ');
    upper.set(link.toUpperCase(), target);
  }
}

export const zoneIds = () => { if (table === undefined) load(); return [...table.keys()].filter(z => !z.startsWith('Etc/')); };

/** The zone a program names; a RangeError that names it if it is unknown. */
export function canonicalZone(name) {
  const text = String(name);
  if (text === 'UTC') return 'UTC';
  const m = /^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(text);
  if (m !== null) { const minutes = m[3] ?? '00'; return `${m[2] + minutes === '0000' ? '+' : m[1]}${m[2]}:${minutes}`; }
  if (table === undefined) load();
  const id = upper.get(text.toUpperCase());
  if (id === undefined) throw new RangeError(`Invalid time zone specified: ${text}`);
  return id;
}

const decoded = new Map();
function changesOf(id) {
  let z = decoded.get(id);
  if (z !== undefined) return z;
  if (/^[+-]/.test(id)) {
    const seconds = (Number(id.slice(1, 3)) * 60 + Number(id.slice(4, 6))) * (id[0] === '-' ? -60 : 60);
    z = { times: [], offsets: [seconds] };
  } else {
    const times = [], offsets = [];
    let minute = FIRST;
    for (const item of table.get(id).split(' ')) {
      const [delta, offset] = item.split(':');
      if (offset === undefined) { offsets.push(parseInt(delta, 36)); continue; }
      minute += parseInt(delta, 36);
      times.push(minute);
      offsets.push(parseInt(offset, 36));
    }
    z = { times, offsets };
  }
  decoded.set(id, z);
  return z;
}

const FIRST = Date.UTC(1840, 0, 1) / 60000, LAST = Date.UTC(2052, 0, 1) / 60000;
const CYCLE = 10227 * 1440; // 28 years: the calendar repeats, so do yearly rules

/** Seconds east of UTC at an instant (milliseconds since 1970). */
export function offsetAt(id, ms) {
  if (id === 'UTC') return 0;
  const { times, offsets } = changesOf(id);
  let minute = Math.floor(ms / 60000);
  while (minute >= LAST) minute -= CYCLE;
  let lo = 0, hi = times.length;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (times[mid] <= minute) lo = mid + 1; else hi = mid; }
  return offsets[lo];
}

function gmt(data, seconds, long) {
  const [plus, minus, zero, longZero] = data.gmt;
  if (seconds === 0) return long ? longZero : zero;
  const a = Math.abs(seconds), h = Math.floor(a / 3600), m = Math.floor(a / 60) % 60, s = a % 60, two = n => String(n).padStart(2, '0');
  return `${seconds < 0 ? minus : plus}${long ? two(h) : h}${long || m || s ? ':' + two(m) : ''}${s ? ':' + two(s) : ''}`;
}

const STYLES = { short: 0, long: 2, shortGeneric: 4, longGeneric: 5 };
/** The name of a zone at an instant in one of the six styles of `timeZoneName`; `data` is the locale's. */
export function zoneName(id, ms, style, data) {
  const seconds = offsetAt(id, ms);
  if (style === 'shortOffset' || style === 'longOffset') return gmt(data, seconds, style === 'longOffset');
  let name = '';
  if (id === 'UTC' || (!/^[+-]/.test(id) && ms >= 0)) { // as in ICU, zones have no names before 1970
    if (table === undefined) load();
    const [list, ids] = data.names, at = 2 * order.get(id), code = i => { const c = ids.charCodeAt(i); return (c === 126 ? 92 : c) - 40; };
    const plain = style === 'short' || style === 'long', summer = plain && isSummer(id, ms, seconds) ? 1 : 0;
    // a name of today would be false where the zone then kept another time
    if (!plain || (summer ? standardOf(id, ms) : seconds) === standardOf(id, TODAY)) name = list[code(at) * 80 + code(at + 1)].split('|')[STYLES[style] + summer];
  }
  return name || gmt(data, seconds, style.startsWith('long'));
}

const TODAY = Date.UTC(2026, 0, 1);
/** The standard time of a zone in the year of an instant: the smaller offset of winter and summer. */
function standardOf(id, ms) {
  const year = new Date(ms).getUTCFullYear();
  return Math.min(offsetAt(id, Date.UTC(year, 0, 1)), offsetAt(id, Date.UTC(year, 6, 1)));
}

/** Daylight saving time: a greater offset than the other one of that year. */
const isSummer = (id, ms, seconds) => seconds > standardOf(id, ms);
