const hexToRgb = (hex) => { const m = /^#?([\da-f]{2})([\da-f]{2})([\da-f]{2})$/i.exec(hex); return m ? m.slice(1).map((h) => parseInt(h, 16)) : null; };
const rgbToHsl = ([r, g, b]) => {
  [r, g, b] = [r, g, b].map((v) => v / 255);
  const max = Math.max(r, g, b), min = Math.min(r, g, b), d = max - min, l = (max + min) / 2;
  const s = d === 0 ? 0 : d / (1 - Math.abs(2 * l - 1));
  const h = d === 0 ? 0 : max === r ? ((g - b) / d) % 6 : max === g ? (b - r) / d + 2 : (r - g) / d + 4;
  return [Math.round(h * 60 + (h < 0 ? 360 : 0)), +(s * 100).toFixed(1), +(l * 100).toFixed(1)];
};
for (const c of ['#ff0000', '#00ff7f', '336699', '#000', '#C0FFEE']) { const rgb = hexToRgb(c); console.log(c, rgb, rgb && `hsl(${rgbToHsl(rgb).join(', ')})`); }
const lum = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => { const [x, y] = [lum(hexToRgb(a)), lum(hexToRgb(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
console.log(contrast('#ffffff', '#000000'), contrast('#777777', '#ffffff').toFixed(3), lum([12, 34, 56]));
const mix = (a, b, t) => '#' + hexToRgb(a).map((v, i) => Math.round(v + (hexToRgb(b)[i] - v) * t).toString(16).padStart(2, '0')).join('');
console.log(Array.from({ length: 5 }, (_, i) => mix('#ff0000', '#0000ff', i / 4)));
