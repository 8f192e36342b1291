const and = new Intl.ListFormat('en', { style: 'long', type: 'conjunction' });
const or = new Intl.ListFormat('en', { type: 'disjunction' });
const unit = new Intl.ListFormat('en', { style: 'narrow', type: 'unit' });
const short = new Intl.ListFormat('en', { style: 'short' });
for (const l of [[], ['apples'], ['apples', 'pears'], ['apples', 'pears', 'plums'], ['a', 'b', 'c', 'd']]) {
  console.log(JSON.stringify([and.format(l), or.format(l), unit.format(l), short.format(l)]));
}
console.log(and.formatToParts(['x', 'y', 'z']));
