const scores = [['Łukasz', 9120], ['Zoé', 15320.75], ['anna', 15320.75], ['Öykü', 880], ['Bjørn', 1200300]];
const place = n => n + ({ one: 'st', two: 'nd', few: 'rd' }[new Intl.PluralRules('en', { type: 'ordinal' }).select(n)] ?? 'th');
scores.sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
scores.forEach(([n, s], i) => console.log(place(i + 1).padEnd(5), n.padEnd(8), s.toLocaleString().padStart(12), new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 }).format(s)));
console.log([...scores].map(s => s[0]).sort((a, b) => a.localeCompare(b, 'en')).join());
console.log([...scores].map(s => s[0]).sort(Intl.Collator('de').compare).join());
