// Intl.Segmenter: grapheme clusters, words and sentences by the rules of UAX 29, with the properties the engine's regular expressions know.
import { resolveLocale, requireObject, getOption, setSlots, getSlots, defineIntl, instanceFor } from './core.js';

const GRAPHEME = /\r\n|[\p{Cc}\p{Zl}\p{Zp}]|\p{RI}\p{RI}(?:[\p{M}\u200d\p{Emoji_Modifier}]*)|[\u1100-\u115f\ua960-\ua97c]*(?:[\uac00-\ud7a3]|[\u1160-\u11a7\ud7b0-\ud7c6])(?:[\u1160-\u11ff\ud7b0-\ud7fb])*(?:[\p{M}\u200d])*|\p{Extended_Pictographic}(?:[\p{M}\p{Emoji_Modifier}]*\u200d\p{Extended_Pictographic})*[\p{M}\u200d\p{Emoji_Modifier}]*|[^][\p{M}\u200d\u200c\p{Emoji_Modifier}\u{e0020}-\u{e007f}]*/gu;
const X = '[\\p{M}\\p{Cf}\\u200d]*';
const LETTER = `(?:[\\p{L}\\p{Nl}\\u02c2-\\u02df](?<![\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Thai}])${X})`;
const DIGIT = `(?:\\p{Nd}${X})`, JOIN = `(?:[_\\u203f\\u2040]${X})`;
const CORE = `(?:${LETTER}|${DIGIT}|${JOIN})`;
const WORD = new RegExp(`\\r\\n|${CORE}(?:${CORE}|(?<=\\p{L}${X})[:\\u00b7.'\\u2018\\u2019\\u2024\\ufe55](?=\\p{L})|(?<=\\p{Nd}${X})[.,;'\\u2018\\u2019\\u066c](?=\\p{Nd}))*|(?:\\p{sc=Kana}|\\u30fc)+|\\p{sc=Hira}+|\\p{sc=Han}+|\\p{sc=Thai}+|\\p{RI}\\p{RI}|\\p{Extended_Pictographic}(?:${X}\\u200d\\p{Extended_Pictographic})*[\\p{M}\\p{Emoji_Modifier}]*|[ \\u3000]+|[^]${X}`, 'gu');
const WORDLIKE = /[\p{L}\p{N}]/u;
const SENTENCE = /[^]*?(?:\r\n|[\n\r\u0085\u2028\u2029]|[.\u2024]+[\p{Pe}\p{Pf}\p{Pi}"')\]]*\s+(?=[^\p{Ll}]|$)|[!?\u203c\u3002\uff01\uff1f]+[\p{Pe}\p{Pf}\p{Pi}"')\]]*\s*|$)/gu;
const RULES = { grapheme: GRAPHEME, word: WORD, sentence: SENTENCE };

export function Segmenter(locales, options) {
  if (new.target === undefined) throw new TypeError("Constructor Intl.Segmenter requires 'new'");
  const object = instanceFor(new.target, Segmenter);
  const { locale } = resolveLocale(locales);
  const o = requireObject(options);
  getOption(o, 'localeMatcher', 'string', ['lookup', 'best fit'], 'best fit', 'Intl.Segmenter');
  return setSlots(object, { kind: 'Segmenter', locale, granularity: getOption(o, 'granularity', 'string', ['grapheme', 'word', 'sentence'], 'grapheme', 'Intl.Segmenter') });
}

function* walk(s, input) {
  for (const m of input.matchAll(RULES[s.granularity])) {
    if (m[0] === '') continue;
    const data = { segment: m[0], index: m.index, input };
    if (s.granularity === 'word') data.isWordLike = WORDLIKE.test(m[0]);
    yield data;
  }
}

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const segmentsProto = {
  containing(index) {
    const { s, input } = getSlots(this, 'Segments', 'containing'), at = Math.trunc(Number(index)) || 0;
    if (at < 0 || at >= input.length) return undefined;
    for (const part of walk(s, input)) if (at < part.index + part.segment.length) return part;
    return undefined;
  },
  [Symbol.iterator]() {
    const { s, input } = getSlots(this, 'Segments', 'iterator'), source = walk(s, input);
    const iterator = Object.create(iteratorProto);
    return setSlots(iterator, { kind: 'Segment Iterator', source });
  },
};
const iteratorProto = Object.create(IteratorPrototype, {
  next: { value: { next() { return getSlots(this, 'Segment Iterator', 'next').source.next(); } }.next, writable: true, configurable: true },
  [Symbol.toStringTag]: { value: 'Segmenter String Iterator', configurable: true },
});
for (const key of Reflect.ownKeys(segmentsProto)) Object.defineProperty(segmentsProto, key, { enumerable: false });

defineIntl(Segmenter, 'Segmenter', 0, {
  segment(input) {
    const s = getSlots(this, 'Segmenter', 'segment');
    return setSlots(Object.create(segmentsProto), { kind: 'Segments', s, input: String(input) });
  },
  resolvedOptions() {
    const { locale, granularity } = getSlots(this, 'Segmenter', 'resolvedOptions');
    return { locale, granularity };
  },
});
