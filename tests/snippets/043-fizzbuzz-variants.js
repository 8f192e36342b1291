const fizz = (n) => (n % 3 ? '' : 'Fizz') + (n % 5 ? '' : 'Buzz') || n;
console.log(Array.from({ length: 15 }, (_, i) => fizz(i + 1)));
console.log(Array.from({ length: 15 }, (_, i) => fizz(i + 1)).join('\n'));
for (let i = 98; i <= 105; i++) {
  switch (true) {
    case i % 15 === 0: console.log(i, 'FizzBuzz'); break;
    case i % 5 === 0: console.log(i, 'Buzz'); break;
    case i % 3 === 0: console.log(i, 'Fizz'); break;
    default: console.log(i);
  }
}
const rules = new Map([[3, 'Fizz'], [5, 'Buzz'], [7, 'Bazz']]);
const multi = (n) => [...rules].filter(([d]) => n % d === 0).map(([, w]) => w).join('') || String(n);
console.log(Array.from({ length: 35 }, (_, i) => multi(i + 1)));
