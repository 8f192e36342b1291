// Makes the cases whose answers under node 22 are the expectation for Intl in the guest. Deterministic: the same list every time.
// Usage: node cases.mjs record > cases.jsonl       (TZ=UTC, full ICU)
// A case is [constructor, locale, options, method, arguments]; arguments are tagged: n: number, b: BigInt, s: string, d: date, j: JSON.
let seed = 12345;
const random = n => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
};
const pick = a => a[random(a.length)];
const LOCALES = ['en-US', 'en-US', 'en-US', 'en-GB', 'de-DE', 'fr-FR', 'ja-JP', 'es-ES', 'it-IT', 'pt-BR', 'en-CA', 'sv-SE', 'en-IN', 'en-AU', 'es-MX', 'nl-NL', 'zh-CN'];
const maybe = (o, k, values, odds = 3) => { if (random(odds) === 0) o[k] = pick(values); };
const NUMBERS = [0, -0, 1, -1, 2, 5, 9.995, 0.5, 1.5, 2.5, -2.5, 0.005, 0.0001234, 10, 12, 42, 99.5, 100, 123.456, 999, 999.5, 999.95, 1000, 1234, -1234.5, 1499.5, 9999, 12345, 99999, 123456.789, 999499, 999500, 999999, 1e6, -1500000, 12345678.9, 1e9, 2.5e9, 1e12, 1.23e14, 1e15, 1e18, 1e21, 1.5e25, 1e-7, 6.022e23, 5e-324, NaN, Infinity, -Infinity];
const number = () => (random(3) ? 'n:' + (v => Object.is(v, -0) ? '-0' : String(v))(pick(NUMBERS)) : random(2) ? 'n:' + (random(2e9) / pick([1, 10, 100, 1000, 7]) * pick([1, -1])) : random(2) ? 'b:' + pick(['0', '1', '-5', '123456789012345678901234567890']) : 's:' + pick(['12.50', '1e3', '-0.00', '123456789012345678901.5', 'abc']));
const CURRENCIES = ['USD', 'EUR', 'GBP', 'JPY', 'INR', 'CAD', 'CHF', 'KWD', 'SEK', 'BRL', 'XYZ', 'CNY'];
const UNITS = ['kilometer', 'mile', 'liter', 'celsius', 'fahrenheit', 'kilogram', 'byte', 'megabyte', 'day', 'hour', 'second', 'year', 'percent', 'degree', 'kilometer-per-hour', 'mile-per-hour', 'megabyte-per-second', 'liter-per-day', 'inch', 'foot', 'acre'];

function digits(o) {
  maybe(o, 'minimumFractionDigits', [0, 1, 2], 5);
  maybe(o, 'maximumFractionDigits', [2, 3, 5], 5);
  if (random(8) === 0) o.maximumFractionDigits = Math.max(o.minimumFractionDigits ?? 0, pick([0, 1]));
  maybe(o, 'maximumSignificantDigits', [1, 2, 3, 6], 9);
  maybe(o, 'minimumSignificantDigits', [1, 3], 20);
  if (o.minimumSignificantDigits > o.maximumSignificantDigits) delete o.minimumSignificantDigits;
  maybe(o, 'minimumIntegerDigits', [2, 5], 16);
  maybe(o, 'roundingMode', ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfTrunc', 'halfEven'], 8);
  maybe(o, 'trailingZeroDisplay', ['stripIfInteger'], 16);
  maybe(o, 'roundingPriority', ['morePrecision', 'lessPrecision'], 20);
  maybe(o, 'useGrouping', [true, false, 'min2', 'always'], 7);
  maybe(o, 'signDisplay', ['always', 'never', 'exceptZero', 'negative'], 5);
}

function numberOptions() {
  const o = {}, style = pick(['decimal', 'decimal', 'percent', 'currency', 'currency', 'unit']);
  if (style !== 'decimal') o.style = style;
  if (style === 'currency') { o.currency = pick(CURRENCIES); maybe(o, 'currencyDisplay', ['code', 'name', 'narrowSymbol']); maybe(o, 'currencySign', ['accounting']); }
  if (style === 'unit') { o.unit = pick(UNITS); maybe(o, 'unitDisplay', ['long', 'narrow'], 2); }
  maybe(o, 'notation', ['compact', 'compact', 'scientific', 'engineering'], 4);
  maybe(o, 'compactDisplay', ['long']);
  digits(o);
  return o;
}

const DATES = [0, 951782400000, 1709251199000, 1704067200000, 1718445600123, 1710054000000, 1730613599000, -62135596800000, -86400000, 1719792000000, 4102444799000, 1136073845009];
const date = () => 'd:' + (random(3) ? pick(DATES) : random(2e9) * 1000);
const ZONES = ['UTC', 'UTC', 'UTC', 'America/New_York', 'America/Los_Angeles', 'Europe/London', 'Europe/Berlin', 'Asia/Tokyo', 'Asia/Kolkata', 'Australia/Sydney', 'Pacific/Auckland', 'America/Sao_Paulo', 'Asia/Kathmandu', '+05:30'];

function dateOptions() {
  const o = {};
  if (random(5) === 0) {
    maybe(o, 'dateStyle', ['full', 'long', 'medium', 'short'], 1);
    maybe(o, 'timeStyle', ['full', 'long', 'medium', 'short'], 2);
    if (random(5) === 0) delete o.dateStyle;
    maybe(o, 'hour12', [true, false], 5);
  } else {
    maybe(o, 'weekday', ['long', 'short', 'narrow']);
    maybe(o, 'era', ['long', 'short', 'narrow'], 12);
    maybe(o, 'year', ['numeric', '2-digit'], 2);
    maybe(o, 'month', ['numeric', '2-digit', 'long', 'short', 'narrow'], 2);
    maybe(o, 'day', ['numeric', '2-digit'], 2);
    maybe(o, 'hour', ['numeric', '2-digit']);
    if (o.hour || random(8) === 0) { maybe(o, 'minute', ['numeric', '2-digit'], 2); if (o.minute) maybe(o, 'second', ['numeric', '2-digit'], 2); }
    if (o.second) maybe(o, 'fractionalSecondDigits', [1, 2, 3], 5);
    maybe(o, 'hour12', [true, false], 6);
    maybe(o, 'hourCycle', ['h11', 'h12', 'h23', 'h24'], 10);
    if (o.hour) maybe(o, 'dayPeriod', ['long', 'short', 'narrow'], 10);
    if (o.hour) maybe(o, 'timeZoneName', ['short', 'long', 'shortOffset', 'longOffset'], 6);
  }
  o.timeZone = pick(ZONES);
  return o;
}

const WORDS = ['a', 'A', 'á', 'Á', 'ä', 'b', 'B', 'co-op', 'coop', 'co op', 'résumé', 'resume', 'Résumé', 'Zürich', 'zebra', 'Zebra', '10', '9', '2', 'img12', 'img2', 'IMG2', '_x', '$5', '#1', 'ñ', 'n', 'nz', 'ß', 'ss', 'æ', 'ae', 'Ø', 'o', 'oz', 'ł', 'l', 'lz', 'привет', 'Яблоко', 'яблоко', 'ёлка', 'ель', 'αβγ', 'Ωmega', 'ά', '日本', '中国', 'ひらがな', 'ヒラガナ', 'カタカナ', '', ' ', 'a b', 'a-b', "a'b", 'ab', '€', '™', '½', '1', '①', 'e\u0301', 'é', 'Đ', 'd', 'þ', 'ž', 'z', '한국', '中', '😀', '🎉', '…', '.', '..', '!', '?', '(', '[', '{', '@', '&', '*', '/', '\\', '%', '`', '^', '+', '<', '=', '>', '|', '~', '–', '—', '“', '”', '\t', '\n', '\u00a0', '\u0000', 'ij', 'ﬁ', 'fi', 'ŉ', 'dž', 'א', 'ב', 'ع', 'ก'];

export function makeCases() {
  const cases = [];
  const add = (c, l, o, m, ...a) => cases.push([c, l, o, m, a]);
  for (let i = 0; i < 900; i++) add('NumberFormat', pick(LOCALES), numberOptions(), random(15) ? 'format' : 'formatToParts', number());
  for (let i = 0; i < 150; i++) add('NumberFormat', 'en-US', numberOptions(), 'formatRange', 'n:' + pick(NUMBERS.slice(2, 40)), 'n:' + pick(NUMBERS.slice(2, 40)));
  for (let i = 0; i < 40; i++) add('NumberFormat', 'en-US', numberOptions(), 'resolvedOptions');
  for (const v of NUMBERS) for (const l of ['en-US', 'de-DE', 'ja-JP']) add('NumberFormat', l, {}, 'format', 'n:' + (Object.is(v, -0) ? '-0' : v));
  for (const currency of CURRENCIES) for (const l of ['en-US', 'en-GB', 'de-DE', 'fr-FR', 'ja-JP']) add('NumberFormat', l, { style: 'currency', currency }, 'format', 'n:-1234.567');
  for (let i = 0; i < 1000; i++) add('DateTimeFormat', pick(LOCALES), dateOptions(), random(15) ? 'format' : 'formatToParts', date());
  for (let i = 0; i < 120; i++) { const a = pick(DATES); add('DateTimeFormat', pick(LOCALES), { ...dateOptions(), timeZone: 'UTC' }, 'formatRange', 'd:' + a, 'd:' + (a + pick([0, 1000, 60000, 3600000, 36000000, 86400000, 864000000, 5184000000, 31536000000]))); }
  for (let i = 0; i < 40; i++) add('DateTimeFormat', pick(LOCALES), dateOptions(), 'resolvedOptions');
  for (let i = 0; i < 200; i++) add('PluralRules', pick(LOCALES), { type: pick(['cardinal', 'ordinal']), ...(random(4) ? {} : { minimumFractionDigits: 1 }) }, 'select', 'n:' + (random(3) ? random(130) : pick(NUMBERS.slice(2))));
  for (let i = 0; i < 200; i++) add('ListFormat', pick(LOCALES), { type: pick(['conjunction', 'disjunction', 'unit']), style: pick(['long', 'short', 'narrow']) }, random(5) ? 'format' : 'formatToParts', 'j:' + JSON.stringify(['a', 'b', 'c', 'd', 'e'].slice(0, random(6))));
  for (let i = 0; i < 400; i++) add('RelativeTimeFormat', pick(LOCALES), { numeric: pick(['always', 'auto']), style: pick(['long', 'short', 'narrow']) }, random(5) ? 'format' : 'formatToParts', 'n:' + pick([0, '-0', 1, -1, 2, -2, 3, -5, 1.5, -10.25, 1000, -123456]), 's:' + pick(['second', 'minutes', 'hour', 'day', 'days', 'week', 'month', 'quarter', 'year']));
  for (let i = 0; i < 800; i++) add('Collator', pick(['en-US', 'en-US', 'de-DE', 'fr-FR']), pick([{}, {}, {}, { numeric: true }, { sensitivity: 'base' }, { sensitivity: 'accent' }, { sensitivity: 'case' }, { caseFirst: 'upper' }, { ignorePunctuation: true }, { numeric: true, sensitivity: 'base' }]), 'compare', 's:' + pick(WORDS), 's:' + pick(WORDS));
  // every locale: a zone beside a date, a weekday beside a time, hours across days; then names of zones that changed their time
  const morning = 'd:1709190000000', next = 'd:1709276400000', ymd = { year: 'numeric', month: 'numeric', day: 'numeric' }, hm = { hour: 'numeric', minute: '2-digit' };
  for (const l of new Set(LOCALES)) {
    for (const timeZoneName of ['short', 'long', 'longOffset']) for (const o of [{}, ymd, { ...ymd, weekday: 'long', month: 'long' }, { weekday: 'short' }, { ...ymd, hour: 'numeric', minute: 'numeric', second: 'numeric' }]) add('DateTimeFormat', l, { ...o, timeZoneName, timeZone: 'UTC' }, 'format', morning);
    for (const weekday of ['long', 'short', 'narrow']) for (const o of [{ hour: 'numeric' }, hm, { hour: '2-digit', minute: '2-digit' }, { ...hm, second: '2-digit' }, { ...hm, hour12: true }, { ...hm, timeZoneName: 'short' }]) add('DateTimeFormat', l, { weekday, ...o, timeZone: 'UTC' }, 'format', morning);
    for (const o of [hm, { hour: '2-digit', minute: '2-digit' }, { ...hm, weekday: 'short' }]) add('DateTimeFormat', l, { ...o, timeZone: 'UTC' }, 'formatRange', morning, next);
  }
  for (const timeZone of ['Europe/London', 'Europe/Dublin', 'America/Adak', 'America/Anchorage', 'Africa/Bissau']) for (const timeZoneName of ['short', 'long']) for (const d of ['d:0', morning]) add('DateTimeFormat', 'en-US', { timeZone, timeZoneName }, 'format', d);
  return cases;
}

/** Runs one case in any engine; errors are answers too. */
export function runCase([c, l, o, m, a]) {
  const args = a.map(x => {
    const v = x.slice(2);
    return x[0] === 'n' ? Number(v) : x[0] === 'b' ? BigInt(v) : x[0] === 'd' ? new Date(Number(v)) : x[0] === 'j' ? JSON.parse(v) : v;
  });
  try {
    const r = new Intl[c](l, o)[m](...args);
    return typeof r === 'string' ? r : JSON.stringify(r);
  } catch (e) {
    return `${e.name}: ${e.message}`;
  }
}

if (globalThis.process?.argv[2] === 'record') console.log(makeCases().map(c => JSON.stringify([...c, runCase(c)])).join('\n'));
