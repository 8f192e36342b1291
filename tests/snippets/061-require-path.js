const path = require('path');
console.log(path.join('/a', '..', 'b', './c', '../d.txt'), path.resolve('/foo', 'bar', '../baz'), path.normalize('/a//b/../c/.'));
console.log(path.basename('/x/y.tar.gz'), path.basename('/x/y.txt', '.txt'), path.extname('a.b.c'), path.extname('.bashrc'), path.dirname('/a/b/c'), path.sep, path.delimiter);
console.log(path.parse('/home/u/file.txt'), path.format({ dir: '/d', name: 'n', ext: '.e' }), path.relative('/a/b/c', '/a/d'), path.isAbsolute('x'), path.isAbsolute('/x'));
console.log(path.win32.join('C:\\a', '..', 'b'), path.posix === path, path.win32.basename('C:\\x\\y.z'), require('node:path') === path, require('path/posix') === path.posix);
try { path.join(5); } catch (e) { console.log(e.name, e.code, e.message); }
try { path.basename(); } catch (e) { console.log(e.name + ': ' + e.message); }
console.log(path.matchesGlob === undefined, path.toNamespacedPath('/x'), path.join(''), path.normalize(''), path.resolve('/').length);
