console.log('istanbul'.toLocaleUpperCase(), 'TITLE'.toLocaleLowerCase('en-US'), 'straße'.toLocaleUpperCase(), 'ΑΣ'.toLocaleLowerCase());
console.log('i'.toLocaleUpperCase('tr'), 'I'.toLocaleLowerCase('tr'));
const title = s => s.replace(/\b\w/g, c => c.toLocaleUpperCase());
console.log(title('the quick brown fox'));
console.log(['b', 'a', 'C', 'A', 'c', 'B'].sort((x, y) => x.localeCompare(y)), ['b', 'a', 'C'].sort((x, y) => x.toLowerCase().localeCompare(y.toLowerCase())));
