console.log('this never prints');
const x = {
  a: 1,
  b: 2
;
console.log(x);
