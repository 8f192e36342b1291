const words = ['co-op', 'coop', 'co op', 'CO-OP', 'résumé', 'resume', 'Resume', 'Résumé', 'cafe', 'café', 'Zebra', 'zebra', '123', '_private', '$var', '#tag', '@user', 'ß', 'ss', 'æther', 'aether', 'Ångström', 'angstrom', 'привет', 'Яблоко', 'яблоко', 'αβγ', 'Ωmega', '日本', '中国', 'ひらがな', 'カタカナ'];
console.log([...words].sort((a, b) => a.localeCompare(b)).join(' | '));
console.log([...words].sort(Intl.Collator('en', { sensitivity: 'accent' }).compare).slice(0, 12).join(' | '));
for (const s of ['base', 'accent', 'case', 'variant']) console.log(s, ['a', 'A', 'á', 'b'].map(x => 'a'.localeCompare(x, 'en', { sensitivity: s })).join(' '));
console.log(new Intl.Collator('en', { ignorePunctuation: true }).compare('co-op', 'coop'), 'a'.localeCompare('b'), 'B'.localeCompare('a'), ''.localeCompare('a'));
