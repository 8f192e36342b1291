const pr = new Intl.PluralRules('en-US');
const ord = new Intl.PluralRules('en-US', { type: 'ordinal' });
const suffix = { one: 'st', two: 'nd', few: 'rd', other: 'th' };
const files = n => `${n} ${pr.select(n) === 'one' ? 'file' : 'files'} deleted`;
for (const n of [0, 1, 2, 1.5, 11, 21, 101]) console.log(files(n));
console.log([1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 23, 100, 101, 102, 103, 111, 112, 113].map(n => n + suffix[ord.select(n)]).join(' '));
console.log(new Intl.PluralRules('en-US', { minimumFractionDigits: 1 }).select(1));
console.log(ord.resolvedOptions().pluralCategories, pr.resolvedOptions().locale);
