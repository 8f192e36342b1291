const d = new Date('2024-03-10T12:00:00Z');
for (const tz of ['UTC', 'America/New_York', 'America/Los_Angeles', 'Europe/London', 'Europe/Berlin', 'Asia/Tokyo', 'Asia/Kolkata', 'Australia/Sydney', 'America/Sao_Paulo']) {
  console.log(tz, JSON.stringify(d.toLocaleString('en-US', { timeZone: tz, dateStyle: 'medium', timeStyle: 'long' })));
}
for (const iso of ['2024-03-10T06:59:59Z', '2024-03-10T07:00:00Z', '2024-11-03T05:59:59Z', '2024-11-03T06:00:00Z']) {
  console.log(new Intl.DateTimeFormat('en-US', { timeZone: 'America/New_York', hour: 'numeric', minute: '2-digit', timeZoneName: 'short' }).format(new Date(iso)));
}
console.log(Intl.DateTimeFormat().resolvedOptions().locale);
try { new Intl.DateTimeFormat('en-US', { timeZone: 'Mars/Olympus' }); } catch (e) { console.log(e.name, e.message); }
