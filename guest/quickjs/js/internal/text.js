// Quoting, escaping and measuring of printed text.

const short = { 8: '\\b', 9: '\\t', 10: '\\n', 12: '\\f', 13: '\\r', 39: "\\'", 92: '\\\\' };
const lone = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]';
const toEscape = new RegExp(`[\\x00-\\x1f\\x27\\x5c\\x7f-\\x9f]|${lone}`, 'g');
const toEscapeQuoted = new RegExp(`[\\x00-\\x1f\\x5c\\x7f-\\x9f]|${lone}`, 'g');

function escapeOne(character) {
  const code = character.charCodeAt(0);
  if (short[code] !== undefined) return short[code];
  if (code < 0xa0) return `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`;
  return `\\u${code.toString(16)}`;
}

/** True when no character of `text` needs an escape and it holds no quote: most strings. */
function isPlain(text) {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === 39 || code === 92 || (code > 126 && code < 160) || (code >= 0xd800 && code < 0xe000)) {
      return false;
    }
  }
  return true;
}

/** The string as a literal: single quotes, or the first of double quotes and backticks that saves escaping them. */
export function strEscape(text) {
  if (text.length < 200 && isPlain(text)) return `'${text}'`;
  if (!text.includes("'")) return `'${text.replace(toEscape, escapeOne)}'`;
  if (!text.includes('"')) return `"${text.replace(toEscapeQuoted, escapeOne)}"`;
  if (!text.includes('`') && !text.includes('${')) return `\`${text.replace(toEscapeQuoted, escapeOne)}\``;
  return `'${text.replace(toEscape, escapeOne)}'`;
}

/** A key that is printed without quotes but may hold control characters. */
export const escapeKey = (text) => text.replace(toEscape, escapeOne);

const identifier = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
export const isIdentifier = (key) => identifier.test(key);

const colorCode = /\u001b\[\d\d?m/g;
export const removeColors = (text) => text.replace(colorCode, '');

// Control sequences with a final byte, and operating-system commands up to BEL or ST.
const controlSequence =
  /[\u001b\u009b](?:\][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|[[\]()#;?]*(?:\d{1,4}(?:[;:]\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~])/g;
export const stripControlSequences = (text) => text.replace(controlSequence, '');

// Unicode 16 East Asian Width F and W, as ranges [first, last].
const wide = [
  [0x1100, 0x115f], [0x231a, 0x231b], [0x2329, 0x232a], [0x23e9, 0x23ec], [0x23f0, 0x23f0], [0x23f3, 0x23f3],
  [0x25fd, 0x25fe], [0x2614, 0x2615], [0x2648, 0x2653], [0x267f, 0x267f], [0x2693, 0x2693], [0x26a1, 0x26a1],
  [0x26aa, 0x26ab], [0x26bd, 0x26be], [0x26c4, 0x26c5], [0x26ce, 0x26ce], [0x26d4, 0x26d4], [0x26ea, 0x26ea],
  [0x26f2, 0x26f3], [0x26f5, 0x26f5], [0x26fa, 0x26fa], [0x26fd, 0x26fd], [0x2705, 0x2705], [0x270a, 0x270b],
  [0x2728, 0x2728], [0x274c, 0x274c], [0x274e, 0x274e], [0x2753, 0x2755], [0x2757, 0x2757], [0x2795, 0x2797],
  [0x27b0, 0x27b0], [0x27bf, 0x27bf], [0x2b1b, 0x2b1c], [0x2b50, 0x2b50], [0x2b55, 0x2b55], [0x2e80, 0x303e],
  [0x3041, 0x33ff], [0x3400, 0x4dbf], [0x4e00, 0xa4cf], [0xa960, 0xa97c], [0xac00, 0xd7a3], [0xf900, 0xfaff],
  [0xfe10, 0xfe19], [0xfe30, 0xfe6b], [0xff01, 0xff60], [0xffe0, 0xffe6], [0x16fe0, 0x18cff], [0x1aff0, 0x1b2ff],
  [0x1f004, 0x1f004], [0x1f0cf, 0x1f0cf], [0x1f18e, 0x1f18e], [0x1f191, 0x1f19a], [0x1f200, 0x1f320],
  [0x1f32d, 0x1f335], [0x1f337, 0x1f37c], [0x1f37e, 0x1f393], [0x1f3a0, 0x1f3ca], [0x1f3cf, 0x1f3d3],
  [0x1f3e0, 0x1f3f0], [0x1f3f4, 0x1f3f4], [0x1f3f8, 0x1f43e], [0x1f440, 0x1f440], [0x1f442, 0x1f4fc],
  [0x1f4ff, 0x1f53d], [0x1f54b, 0x1f54e], [0x1f550, 0x1f567], [0x1f57a, 0x1f57a], [0x1f595, 0x1f596],
  [0x1f5a4, 0x1f5a4], [0x1f5fb, 0x1f64f], [0x1f680, 0x1f6c5], [0x1f6cc, 0x1f6cc], [0x1f6d0, 0x1f6d2],
  [0x1f6d5, 0x1f6d7], [0x1f6dc, 0x1f6df], [0x1f6eb, 0x1f6ec], [0x1f6f4, 0x1f6fc], [0x1f7e0, 0x1f7eb],
  [0x1f7f0, 0x1f7f0], [0x1f90c, 0x1f93a], [0x1f93c, 0x1f945], [0x1f947, 0x1f9ff], [0x1fa70, 0x1faff],
  [0x20000, 0x3fffd],
];

const isWide = (code) => code >= 0x1100 && wide.some(([first, last]) => code >= first && code <= last);

const isZeroWidth = (code) =>
  code <= 0x1f ||
  (code >= 0x7f && code <= 0x9f) ||
  (code >= 0x300 && code <= 0x36f) ||
  (code >= 0x200b && code <= 0x200f) ||
  (code >= 0x20d0 && code <= 0x20ff) ||
  (code >= 0xfe00 && code <= 0xfe0f) ||
  (code >= 0xfe20 && code <= 0xfe2f) ||
  (code >= 0xe0100 && code <= 0xe01ef);

/** Columns `text` takes on a terminal. */
export function getStringWidth(text, removeControl = true) {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  if (removeControl) text = stripControlSequences(text);
  let width = 0;
  for (const character of text.normalize('NFC')) {
    const code = character.codePointAt(0);
    if (isWide(code)) width += 2;
    else if (!isZeroWidth(code)) width++;
  }
  return width;
}
