function parseJSON(src) {
  let i = 0;
  const fail = (msg) => { throw new SyntaxError(`${msg} at ${i}`); };
  const ws = () => { while (/\s/.test(src[i] ?? '')) i++; };
  const expect = (c) => { if (src[i] !== c) fail(`Expected '${c}' but found '${src[i] ?? 'EOF'}'`); i++; };
  function value() {
    ws();
    const c = src[i];
    if (c === '{') { i++; const o = {}; ws(); if (src[i] === '}') { i++; return o; } do { ws(); const k = string(); ws(); expect(':'); o[k] = value(); ws(); } while (src[i] === ',' && ++i); expect('}'); return o; }
    if (c === '[') { i++; const a = []; ws(); if (src[i] === ']') { i++; return a; } do a.push(value()), ws(); while (src[i] === ',' && ++i); expect(']'); return a; }
    if (c === '"') return string();
    const lit = /^(true|false|null|-?\d+(\.\d+)?([eE][+-]?\d+)?)/.exec(src.slice(i));
    if (!lit) fail('Unexpected token');
    i += lit[0].length; return lit[0] === 'true' ? true : lit[0] === 'false' ? false : lit[0] === 'null' ? null : Number(lit[0]);
  }
  function string() { expect('"'); let s = ''; while (src[i] !== '"') { if (i >= src.length) fail('Unterminated string'); if (src[i] === '\\') { i++; s += { n: '\n', t: '\t', '"': '"', '\\': '\\', u: () => String.fromCharCode(parseInt(src.slice(i + 1, (i += 4) + 1), 16)) }[src[i]] ?? src[i]; if (typeof s !== 'string') s = ''; } else s += src[i]; i++; } i++; return s; }
  const v = value(); ws(); if (i < src.length) fail('Trailing data'); return v;
}
for (const t of ['{"a": [1, 2.5e3, -0.1, true, null], "b": {"c": "x\\ny \\"q\\""}}', '[]', '{}', ' "s" ', '[1,', '{"a" 1}', '"abc', '[1] 2', 'nul']) {
  try { console.log(parseJSON(t)); } catch (e) { console.log(`${e.name}: ${e.message}`); }
}
for (const t of ['{"a":1,"b":[1,2,{"c":null}]}', '[1,]', '{a:1}', "{'a':1}", '[1 2]', '"unterminated', 'tru', '01', '1.', '{"a":1}}', '[', '{"a"', 'undefined', '"\t"', '\\x', '-', '{"a":tru}']) {
  try { console.log(JSON.parse(t)); } catch (e) { console.log(t, '=>', e.message); }
}
