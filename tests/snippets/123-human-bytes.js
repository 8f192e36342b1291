function humanBytes(b) {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'];
  const i = b === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log(b) / Math.log(1024)));
  return new Intl.NumberFormat('en', { style: 'unit', unit: units[i], unitDisplay: 'narrow', maximumFractionDigits: 1 }).format(b / 1024 ** i);
}
for (const b of [0, 1, 512, 1023, 1024, 1536, 1048576, 5.5e9, 1e13]) console.log(b, humanBytes(b));
