const render = (tpl, data) => tpl
  .replace(/\{\{#each (\w+)\}\}([\s\S]*?)\{\{\/each\}\}/g, (_, key, body) => (data[key] ?? []).map((item, i) => render(body, { ...item, this: item, '@index': i })).join(''))
  .replace(/\{\{#if (\w+)\}\}([\s\S]*?)(?:\{\{else\}\}([\s\S]*?))?\{\{\/if\}\}/g, (_, k, yes, no = '') => render(data[k] ? yes : no, data))
  .replace(/\{\{([\w.@]+)(?:\s*\|\s*(\w+))?\}\}/g, (_, path, filter) => { const v = path.split('.').reduce((o, k) => o?.[k], data); const f = { upper: (s) => String(s).toUpperCase(), json: JSON.stringify, money: (n) => '$' + Number(n).toFixed(2) }; return filter ? f[filter](v) : v ?? ''; });
console.log(render(`Dear {{user.name | upper}},
{{#if premium}}Thanks for being premium!{{else}}Consider upgrading.{{/if}}
Your items:
{{#each items}}  {{@index}}. {{title}} - {{price | money}}
{{/each}}Total: {{total | money}} {{missing}}|{{tags | json}}`, { user: { name: 'Zoë' }, premium: false, items: [{ title: 'Pen', price: 1.5 }, { title: 'Book', price: 12 }], total: 13.5, tags: ['a', 'b'] }));
const tag = (strings, ...vals) => { console.log(strings, strings.raw, vals); return strings.reduce((s, str, i) => s + str + (vals[i] !== undefined ? `<${vals[i]}>` : ''), ''); };
console.log(tag`a${1}b\n${'two'}c${[3]}`);
const escapeHtml = (s) => s.replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]);
const html = (s, ...v) => s.reduce((o, str, i) => o + str + (i < v.length ? escapeHtml(String(v[i])) : ''), ''); console.log(html`<p>${'<script>alert("x & y")</script>'}</p>`);
const slug = (s) => s.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, ''); console.log(slug('  Crème Brûlée & Ünïcödé – Test!  '));
const dedent = (s) => { const m = Math.min(...s.split('\n').filter((l) => l.trim()).map((l) => l.match(/^ */)[0].length)); return s.split('\n').map((l) => l.slice(m)).join('\n').trim(); }; console.log(dedent(`
    function x() {
      return 1;
    }
  `));
console.log(`nested ${`inner ${`deep ${1 + 1}`}`}`, `${[1, 2]}`, `${{}}`, `${null} ${undefined}`, `${() => 1}`, typeof `x`);
