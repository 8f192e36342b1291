const readings = `
2024-01-01,12.5,sunny
2024-01-02,8.1,rain
2024-01-03,,fog
2024-01-04,-2.3,snow
2024-01-05,15,sunny
bad line
2024-01-06,9.9,rain`.trim().split('\n');
const parsed = readings.map((line, i) => {
  const [date, temp, sky] = line.split(',');
  if (!sky) { console.log(`skipping line ${i + 1}: ${line}`); return null; }
  return { date, temp: temp === '' ? null : Number(temp), sky };
}).filter(Boolean);
console.log(parsed);
const temps = parsed.map((r) => r.temp).filter((t) => t !== null);
const avg = temps.reduce((a, b) => a + b, 0) / temps.length;
console.log(`min=${Math.min(...temps)} max=${Math.max(...temps)} avg=${avg.toFixed(2)}`, avg);
const bySky = parsed.reduce((acc, r) => ({ ...acc, [r.sky]: [...(acc[r.sky] || []), r.temp] }), {});
console.log(bySky);
console.log(temps.map((c) => `${c}°C = ${(c * 9 / 5 + 32).toFixed(1)}°F`).join('\n'));
console.log(parsed.toSorted((a, b) => (b.temp ?? -Infinity) - (a.temp ?? -Infinity)).map((r) => r.date.slice(5)));
