const events = ['2024-02-29T23:59:59Z', '2023-12-31T00:00:00Z', '1999-07-04T12:30:45.678Z'];
for (const e of events) {
  const d = new Date(e);
  console.log(d.toLocaleDateString('en-US'));
  console.log(d.toLocaleDateString('en-US', { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }));
  console.log(JSON.stringify(d.toLocaleTimeString('en-US')));
  console.log(JSON.stringify(d.toLocaleString('en-US', { timeZone: 'UTC' })));
  console.log(d.toISOString(), d.getDay(), d.toDateString());
}
console.log(String(new Date(0)));
console.log(new Date(0).toUTCString());
console.log(new Date(NaN).getTime(), String(new Date(NaN)));
