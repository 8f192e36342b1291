function calendar(y, m) {
  const first = new Date(Date.UTC(y, m, 1)), days = new Date(Date.UTC(y, m + 1, 0)).getUTCDate();
  const title = first.toLocaleString('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });
  const head = [...Array(7).keys()].map(i => new Date(Date.UTC(2024, 0, 7 + i)).toLocaleDateString('en-US', { weekday: 'narrow', timeZone: 'UTC' })).join('  ');
  let out = title + '\n ' + head + '\n', col = first.getUTCDay();
  out += '   '.repeat(col);
  for (let d = 1; d <= days; d++) { out += String(d).padStart(2) + (++col % 7 ? ' ' : '\n'); }
  return out.trimEnd();
}
console.log(calendar(2024, 1));
console.log(calendar(2023, 9));
