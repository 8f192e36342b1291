const files = ['img12.png', 'img10.png', 'IMG2.png', 'img1.png', 'img02.png', 'img1.5.png', 'file-3.txt', 'file_3.txt', 'file 3.txt', 'v1.10.0', 'v1.9.3', 'v1.2', 'v1.2.0-beta'];
files.sort(new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' }).compare);
console.log(files.join('\n'));
console.log(['10', '9', '2', '1', '010'].sort((a, b) => a.localeCompare(b, undefined, { numeric: true })));
console.log('a2'.localeCompare('a10'), 'a2'.localeCompare('a10', 'en', { numeric: true }));
