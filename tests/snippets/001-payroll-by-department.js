const employees = [
  { name: 'Ada', department: 'Engineering', salary: 21000000 },
  { name: 'Linus', department: 'Engineering', salary: 20000000 },
  { name: 'Grace', department: 'Engineering', salary: 18000000 },
  { name: 'Bob', department: 'Sales', salary: 9800000 },
  { name: 'Carol', department: 'Sales', salary: 10500000 },
  { name: 'Dave', department: 'Operations', salary: 9800000 },
];

const totals = employees.reduce((acc, { department, salary }) => {
  acc[department] = (acc[department] || 0) + salary;
  return acc;
}, {});

console.log(JSON.stringify(totals));
console.log(totals);
for (const [dept, total] of Object.entries(totals).sort((a, b) => b[1] - a[1])) {
  console.log(`${dept.padEnd(12)} ${(total / 100).toFixed(2).padStart(12)}`);
}
