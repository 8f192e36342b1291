const shift = (s, k) => s.replace(/[a-z]/gi, (c) => {
  const base = c <= 'Z' ? 65 : 97;
  return String.fromCharCode(((c.charCodeAt(0) - base + k + 26) % 26) + base);
});
const msg = 'Attack at Dawn! Élan stays.';
const enc = shift(msg, 3);
console.log(enc, '|', shift(enc, -3), shift(enc, -3) === msg);
const vig = (text, key, dir = 1) => { let i = 0; return text.replace(/[a-z]/g, (c) => shift(c, dir * (key.charCodeAt(i++ % key.length) - 97))); };
const v = vig('defend the east wall', 'lemon'); console.log(v, vig(v, 'lemon', -1));
console.log([...'Hello'].map((c) => c.charCodeAt(0).toString(2).padStart(8, '0')).join(' '));
console.log('01001000 01101001'.split(' ').map((b) => String.fromCharCode(parseInt(b, 2))).join(''));
const morse = { a: '.-', b: '-...', c: '-.-.', s: '...', o: '---', ' ': '/' }; console.log([...'sos abc'].map((c) => morse[c] ?? '?').join(' '));
const rle = (s) => s.replace(/(.)\1*/g, (m, c) => c + (m.length > 1 ? m.length : '')); const unrle = (s) => s.replace(/(\D)(\d+)/g, (_, c, n) => c.repeat(+n));
console.log(rle('aaabccddddd'), unrle(rle('aaabccddddd')));
const xor = (s, k) => Buffer.from(s).map((b, i) => b ^ k.charCodeAt(i % k.length)); console.log(xor('secret', 'key'), xor('secret', 'key').toString('base64'), Buffer.from(xor(xor('secret', 'key').toString('latin1'), 'key')).toString());
