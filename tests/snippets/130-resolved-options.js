console.log(new Intl.NumberFormat().resolvedOptions());
console.log(new Intl.NumberFormat('en-US', { style: 'currency', currency: 'JPY' }).resolvedOptions());
console.log(new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', hour: 'numeric', minute: 'numeric' }).resolvedOptions());
console.log(new Intl.Collator('en').resolvedOptions());
console.log(Intl.getCanonicalLocales(['EN-us', 'de-de']), Intl.NumberFormat.supportedLocalesOf(['en-US', 'de']));
