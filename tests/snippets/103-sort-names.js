const names = ['Émile', 'zoe', 'Adam', 'émilie', 'Zoë', 'adam', 'Ørsted', 'Åsa', 'eve', 'Ève', 'Bob', 'bob', 'ñandú', 'nadia', 'Nadia', "O'Brien", 'Obrien', 'de la Cruz', 'Delacroix'];
console.log([...names].sort((a, b) => a.localeCompare(b)).join(', '));
console.log([...names].sort().join(', '));
console.log([...names].sort(new Intl.Collator('en', { sensitivity: 'base' }).compare).join(', '));
console.log([...names].sort(new Intl.Collator(undefined, { caseFirst: 'upper' }).compare).join(', '));
