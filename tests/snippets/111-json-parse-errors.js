const bad = ['{bad json}', '', '{"a":1,}', '[1,2', '{"a" 1}', 'undefined', '{"a":tru}', "{'a':1}", '1 2', '"abc', '{"a":"x\ny"}', '[1,]', '{"key": "value", "list": [1, 2, 3, oops], "other": "a long tail of text here"}', 'nul', '-', '01', '"\\q"', '{'];
for (const s of bad) {
  try { JSON.parse(s); console.log('ok?', s); } catch (e) { console.log(e.name + ': ' + e.message); }
}
