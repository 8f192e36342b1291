const d = new Date(Date.UTC(2024, 4, 6, 0, 5, 7, 89));
const p = o => console.log(JSON.stringify(d.toLocaleTimeString('en-US', { timeZone: 'UTC', ...o })));
p({}); p({ hour12: false }); p({ hourCycle: 'h23' }); p({ hourCycle: 'h24' }); p({ hour: '2-digit', minute: '2-digit' }); p({ hour: 'numeric' }); p({ hour: 'numeric', hour12: false });
p({ minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 }); p({ timeStyle: 'short' }); p({ timeZoneName: 'short' }); p({ hour: 'numeric', dayPeriod: 'long' }); p({ second: 'numeric' }); p({ minute: 'numeric' });
