const d = new Date(Date.UTC(2023, 8, 5, 18, 4, 9));
for (const dateStyle of [undefined, 'short', 'medium', 'long', 'full']) for (const timeStyle of [undefined, 'short', 'medium', 'long', 'full']) {
  if (!dateStyle && !timeStyle) continue;
  console.log(String(dateStyle), String(timeStyle), JSON.stringify(new Intl.DateTimeFormat('en-US', { dateStyle, timeStyle, timeZone: 'UTC' }).format(d)));
}
