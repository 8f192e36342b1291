// `Math.hypot` to the last bit as V8 gives it: scaled by the largest argument, the squares summed with compensation.

function hypot(...values) {
  let largest = 0;
  let hasNaN = false;
  let isInfinite = false;
  const magnitudes = values.map((value) => {
    const magnitude = Math.abs(value);
    if (magnitude === Infinity) isInfinite = true;
    else if (magnitude !== magnitude) hasNaN = true;
    else if (magnitude > largest) largest = magnitude;
    return magnitude;
  });
  if (isInfinite) return Infinity;
  if (hasNaN) return NaN;
  if (largest === 0) return 0;
  let sum = 0;
  let compensation = 0;
  for (const magnitude of magnitudes) {
    const scaled = magnitude / largest;
    const summand = scaled * scaled - compensation;
    const preliminary = sum + summand;
    compensation = preliminary - sum - summand;
    sum = preliminary;
  }
  return Math.sqrt(sum) * largest;
}

Object.defineProperty(hypot, 'length', { value: 2 });
Object.defineProperty(Math, 'hypot', { value: hypot, writable: true, enumerable: false, configurable: true });
