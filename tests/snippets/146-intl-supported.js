console.log(typeof Intl, Object.prototype.toString.call(Intl), typeof Intl.NumberFormat, typeof Temporal);
console.log(Object.prototype.toString.call(new Intl.NumberFormat()), Intl.DateTimeFormat.name, Intl.DateTimeFormat().format.name === '');
console.log(Intl.supportedValuesOf('currency').includes('USD'), Intl.supportedValuesOf('unit').slice(0, 3), Intl.supportedValuesOf('numberingSystem').includes('latn'));
try { Intl.supportedValuesOf('planets'); } catch (e) { console.log(e.name, e.message); }
const dn = new Intl.DisplayNames(['en'], { type: 'region' });
console.log(dn.of('US'), dn.of('DE'), new Intl.DisplayNames('en', { type: 'currency' }).of('JPY'), new Intl.DisplayNames('en', { type: 'language' }).of('fr'));
