const ini = `; comment
[server]
host = localhost
port=8080
debug = true

[paths]
root = "/var/www"
list[] = a
list[] = b`;
const cfg = {}; let sec = cfg;
for (const raw of ini.split(/\r?\n/)) { const l = raw.trim(); if (!l || l[0] === ';') continue; const m = l.match(/^\[(.+)\]$/); if (m) { sec = cfg[m[1]] = {}; continue; } let [k, ...v] = l.split('='); k = k.trim(); let val = v.join('=').trim(); val = /^\d+$/.test(val) ? +val : val === 'true' ? true : val.replace(/^"|"$/g, ''); if (k.endsWith('[]')) (sec[k.slice(0, -2)] ??= []).push(val); else sec[k] = val; }
console.log(cfg);
const yamlish = (o, ind = 0) => Object.entries(o).map(([k, v]) => ' '.repeat(ind) + (Array.isArray(v) ? `${k}:\n` + v.map((x) => ' '.repeat(ind + 2) + '- ' + x).join('\n') : v && typeof v === 'object' ? `${k}:\n${yamlish(v, ind + 2)}` : `${k}: ${typeof v === 'string' && /[:#]/.test(v) ? JSON.stringify(v) : v}`)).join('\n'); console.log(yamlish({ ...cfg, note: 'a: b', n: null }));
const env = Object.fromEntries('A=1\nB="two words"\n#c\nD=x=y\n'.split('\n').filter((l) => /^\w+=/.test(l)).map((l) => { const i = l.indexOf('='); return [l.slice(0, i), l.slice(i + 1).replace(/^"(.*)"$/, '$1')]; })); console.log(env);
const md = (s) => s.replace(/^(#+) (.*)$/gm, (_, h, t) => `<h${h.length}>${t}</h${h.length}>`).replace(/\*\*(.+?)\*\*/g, '<b>$1</b>').replace(/\*(.+?)\*/g, '<i>$1</i>').replace(/`(.+?)`/g, '<code>$1</code>').replace(/\[(.+?)\]\((.+?)\)/g, '<a href="$2">$1</a>').replace(/^- (.*)$/gm, '<li>$1</li>'); console.log(md('# Title\nSome **bold** and *it* with `code` and [link](http://x.y)\n- one\n- two'));
const xml = (n, o, d = 0) => { const p = '  '.repeat(d); if (Array.isArray(o)) return o.map((x) => xml(n, x, d)).join('\n'); if (o && typeof o === 'object') { const at = Object.entries(o).filter(([k]) => k[0] === '@').map(([k, v]) => ` ${k.slice(1)}="${v}"`).join(''); return `${p}<${n}${at}>\n${Object.entries(o).filter(([k]) => k[0] !== '@').map(([k, v]) => xml(k, v, d + 1)).join('\n')}\n${p}</${n}>`; } return `${p}<${n}>${o}</${n}>`; }; console.log(xml('root', { '@v': 1, item: [{ id: 1 }, { id: 2, sub: { x: 'y' } }], empty: '' }));
const csv = [['a', 'b,c', 'd"e'], [1, null, 'x\ny']].map((r) => r.map((v) => /[",\n]/.test(String(v ?? '')) ? `"${String(v).replaceAll('"', '""')}"` : v ?? '').join(',')).join('\n'); console.log(csv); const log = '127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326'; const [, ip, when, method, url, status, bytes] = log.match(/^(\S+) .*? \[(.+?)\] "(\S+) (\S+) .*?" (\d+) (\d+)$/); console.log({ ip, when, method, url, status: +status, bytes: +bytes });
