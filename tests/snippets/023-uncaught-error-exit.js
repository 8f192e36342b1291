console.log('step 1');
function parse(input) {
  const data = JSON.parse(input);
  return data.items.map((x) => x * 2);
}
console.log(parse('{"items":[1,2,3]}'));
console.log(parse('{}'));
console.log('unreachable');
