const pairs = { ')': '(', ']': '[', '}': '{' };
function check(src) {
  const stack = [];
  let line = 1, col = 0, str = null;
  for (const ch of src) {
    col++;
    if (ch === '\n') { line++; col = 0; if (str && str !== '`') return `unterminated ${str} before line ${line}`; continue; }
    if (str) { if (ch === str) str = null; continue; }
    if (`'"\``.includes(ch)) str = ch;
    else if (Object.values(pairs).includes(ch)) stack.push({ ch, line, col });
    else if (ch in pairs) { const top = stack.pop(); if (!top) return `unexpected '${ch}' at ${line}:${col}`; if (top.ch !== pairs[ch]) return `'${top.ch}' (${top.line}:${top.col}) closed by '${ch}' at ${line}:${col}`; }
  }
  return str ? `unterminated ${str}` : stack.length ? `unclosed ${stack.map((s) => `${s.ch}@${s.line}:${s.col}`).join(', ')}` : 'ok';
}
for (const s of ['f(a[0], {b: 1})', '(]', ')', '{[(', '"(" + \')\'', 'a\n  (b\n]', "'open", '`multi\n(line` ()', '']) console.log(JSON.stringify(s).padEnd(24), check(s));
const wf = (s) => s.split(/\s+/).reduce((m, w) => m.set(w, (m.get(w) || 0) + 1), new Map());
console.log(wf('to be or not to be'), [...wf('b a b')].map(([w, n]) => `${w}×${n}`));
console.log('camelCaseToWords and XMLHttpRequest'.replace(/([a-z])([A-Z])|([A-Z]+)([A-Z][a-z])/g, '$1$3 $2$4'), 'title case me'.replace(/\b\w/g, (c) => c.toUpperCase()), 'a-b_c d'.split(/[-_ ]/));
console.log('%s has %d items costing %f total (%i)', 'Cart', 3, 9.99, 9.99, { extra: true }, ['more']);
