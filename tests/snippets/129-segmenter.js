const g = new Intl.Segmenter('en', { granularity: 'grapheme' });
console.log([...g.segment('👨‍👩‍👧‍👦 café 🇫🇷e\u0301')].map(s => s.segment), [...g.segment('héllo')].length);
const w = new Intl.Segmenter('en', { granularity: 'word' });
console.log([...w.segment("Hello, world! It's 3.14 o'clock.")].filter(s => s.isWordLike).map(s => s.segment));
const st = new Intl.Segmenter('en', { granularity: 'sentence' });
console.log([...st.segment('Hello there. How are you? Fine!')].map(s => [s.index, s.segment]));
