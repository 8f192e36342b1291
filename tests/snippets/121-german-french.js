const n = 1234567.891, d = new Date(Date.UTC(2024, 11, 24, 18, 30));
for (const l of ['de-DE', 'fr-FR', 'en-GB', 'ja-JP', 'en-US']) {
  console.log(l, JSON.stringify([n.toLocaleString(l), n.toLocaleString(l, { style: 'currency', currency: 'EUR' }), (0.256).toLocaleString(l, { style: 'percent' }), d.toLocaleDateString(l), d.toLocaleTimeString(l), d.toLocaleDateString(l, { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' })]));
}
