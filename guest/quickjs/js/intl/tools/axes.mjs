// What the recorded tables range over. ../dateformat.js indexes them in the same order.
export const PATTERN_AXES = [
  ['weekday', [undefined, 'long', 'short', 'narrow']], ['era', [undefined, 'long', 'short', 'narrow']], ['year', [undefined, 'numeric', '2-digit']],
  ['month', [undefined, 'numeric', '2-digit', 'long', 'short', 'narrow']], ['day', [undefined, 'numeric', '2-digit']],
];
export const TIME_AXES = [
  ['hourCycle', ['h12', 'h23']], ['hour', [undefined, 'numeric', '2-digit']], ['minute', [undefined, 'numeric', '2-digit']], ['second', [undefined, 'numeric', '2-digit']],
  ['fractionalSecondDigits', [undefined, 3]], ['dayPeriod', [undefined, 'short']], ['timeZoneName', [undefined, 'short', 'long']],
];
export const RANGE_AXES = PATTERN_AXES.filter(([name]) => name !== 'era');
export function* combos(axes, i = 0, acc = {}) {
  if (i === axes.length) { yield acc; return; }
  const [name, values] = axes[i];
  for (const v of values) yield* combos(axes, i + 1, v === undefined ? acc : { ...acc, [name]: v });
}
export const CURRENCIES = Intl.supportedValuesOf('currency');
export const UNITS = [...Intl.supportedValuesOf('unit'), 'kilometer-per-hour', 'mile-per-hour', 'meter-per-second', 'mile-per-gallon', 'liter-per-kilometer'];
