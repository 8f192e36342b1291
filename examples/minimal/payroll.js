// Payroll by department, in cents: the kind of question an agent answers with a few lines of code.
const employees = [
  { name: 'Ada', department: 'Engineering', salary: 21_500_000 },
  { name: 'Grace', department: 'Engineering', salary: 19_700_000 },
  { name: 'Edsger', department: 'Engineering', salary: 17_800_000 },
  { name: 'Mary', department: 'Sales', salary: 11_200_000 },
  { name: 'Joan', department: 'Sales', salary: 9_100_000 },
  { name: 'Katherine', department: 'Operations', salary: 9_800_000 },
];

const payroll = {};
for (const { department, salary } of employees) {
  payroll[department] = (payroll[department] ?? 0) + salary;
}
console.log(JSON.stringify(payroll));
