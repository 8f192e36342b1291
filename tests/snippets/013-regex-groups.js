const log = `2024-01-15 10:23:45 [ERROR] db: Connection refused (code=111)
2024-01-15 10:24:01 [INFO] http: GET /users/42 200 12ms
2024-01-15 10:24:07 [WARN] cache: miss for key "user:42"
2024-01-16 00:00:00 [INFO] cron: daily job started`;
const re = /^(?<date>\d{4}-\d{2}-\d{2}) (?<time>[\d:]+) \[(?<level>\w+)\] (?<src>\w+): (?<msg>.*)$/gm;
const entries = [...log.matchAll(re)].map(m => ({ ...m.groups, index: m.index }));
console.log(entries);
console.log('2024-01-15'.match(/(\d+)-(\d+)-(\d+)/));
console.log('no match'.match(/\d/), 'a1b2'.match(/\d/g));
const m = /(?<y>\d{4})(?<opt>x)?/.exec('in 2024');
console.log(m, m.groups, m.groups.opt);
console.log('John Smith'.replace(/(?<first>\w+)\s(?<last>\w+)/, '$<last>, $<first>'));
console.log('price: $30, €40'.replace(/(?<=[$€])\d+/g, n => n * 2), 'foobar foobaz'.match(/foo(?!bar)\w+/));
console.log(/^\p{Lu}\p{Ll}+$/u.test('Élan'), /[\p{Emoji_Presentation}]/u.test('🎉'), 'x🎉y'.match(/./gu));
const sticky = /foo/y; sticky.lastIndex = 3; console.log(sticky.test('barfoo'), sticky.lastIndex, sticky.test('barfoo'));
const g = /a/g; console.log(g.test('aa'), g.lastIndex, g.test('aa'), g.test('aa'));
console.log('a\nb'.match(/a.b/s)?.[0].length, /^b$/m.test('a\nb'), new RegExp('a/b', 'g'), /[/]/.source, new RegExp('').toString());
console.log('aBc'.split(/(?=[A-Z])/), '1,234,567.89'.replace(/,/g, ''), 'x'.replace('x', '$$'), 'abc'.search(/c/));
console.log(/(a+)+b/.test('aaaaaaaaaaaaaaaaaaaab'), /(\w)\1/.exec('hello'), /\k<q>(?<q>a)/.test('a'));
console.log('12345.678'.replace(/\B(?=(\d{3})+(?!\d))/g, ','), /d(?<n>.)/d.exec('abcdX').indices.groups.n);
console.log([...'test1test22'.matchAll(/\d+/g)].map(x => x[0]), RegExp.prototype.flags, /x/dgimsuy.flags);
try { new RegExp('('); } catch (e) { console.log(e.name, e.message); }
try { new RegExp('[z-a]'); } catch (e) { console.log(e.name, e.message); }
