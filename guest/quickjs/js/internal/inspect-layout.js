// How printed entries are laid out: on one line, in columns, or one a line.
import { getStringWidth, removeColors } from 'plimsoll:internal/text';

export const KIND_OBJECT = 0;
export const KIND_ARRAY = 1;
export const KIND_ARRAY_EXTRAS = 2;

/** Arranges more than six array entries in columns of equal width. */
function groupArrayElements(ctx, output, value) {
  let total = 0;
  let longest = 0;
  const hasTrailer = ctx.maxArrayLength < output.length;
  const count = hasTrailer ? output.length - 1 : output.length;
  const lengths = [];
  for (let i = 0; i < count; i++) {
    const length = getStringWidth(output[i], ctx.colors);
    lengths.push(length);
    total += length + 2;
    if (longest < length) longest = length;
  }
  const widest = longest + 2;
  if (!(widest * 3 + ctx.indentationLvl < ctx.breakLength && (total / widest > 5 || longest <= 6))) return output;
  const bias = Math.sqrt(widest - total / output.length);
  const biased = Math.max(widest - 3 - bias, 1);
  const columns = Math.min(
    Math.round(Math.sqrt(2.5 * biased * count) / biased),
    Math.floor((ctx.breakLength - ctx.indentationLvl) / widest),
    ctx.compact * 4,
    15,
  );
  if (columns <= 1) return output;
  const widths = [];
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let i = column; i < count; i += columns) if (lengths[i] > width) width = lengths[i];
    widths.push(width + 2);
  }
  let numeric = true;
  if (value !== undefined) {
    for (let i = 0; i < output.length && numeric; i++) {
      numeric = typeof value[i] === 'number' || typeof value[i] === 'bigint';
    }
  }
  const rows = [];
  for (let i = 0; i < count; i += columns) {
    const end = Math.min(i + columns, count);
    let row = '';
    for (let j = i; j < end; j++) {
      const last = j === end - 1;
      const cell = last ? output[j] : `${output[j]}, `;
      const width = widths[j - i] + output[j].length - lengths[j] - (last ? 2 : 0);
      if (numeric) row += cell.padStart(width);
      else row += last ? cell : cell.padEnd(width);
    }
    rows.push(row);
  }
  if (hasTrailer) rows.push(output[count]);
  return rows;
}

function fitsOneLine(ctx, output, start, base) {
  let total = output.length + start;
  if (total + output.length > ctx.breakLength) return false;
  for (const part of output) {
    total += ctx.colors ? removeColors(part).length : part.length;
    if (total > ctx.breakLength) return false;
  }
  return base === '' || !base.includes('\n');
}

export function reduceToSingleString(ctx, output, base, braces, kind, recurseTimes, value) {
  const lead = base ? `${base} ` : '';
  if (ctx.compact !== true) {
    if (typeof ctx.compact === 'number' && ctx.compact >= 1) {
      const entries = output.length;
      if (kind === KIND_ARRAY_EXTRAS && entries > 6) output = groupArrayElements(ctx, output, value);
      if (ctx.currentDepth - recurseTimes < ctx.compact && entries === output.length) {
        const start = output.length + ctx.indentationLvl + braces[0].length + base.length + 10;
        if (fitsOneLine(ctx, output, start, base)) {
          const joined = output.join(', ');
          if (!joined.includes('\n')) return `${lead}${braces[0]} ${joined} ${braces[1]}`;
        }
      }
    }
    const indentation = `\n${' '.repeat(ctx.indentationLvl)}`;
    return `${lead}${braces[0]}${indentation}  ${output.join(`,${indentation}  `)}${indentation}${braces[1]}`;
  }
  if (fitsOneLine(ctx, output, 0, base)) return `${braces[0]}${base ? ` ${base}` : ''} ${output.join(', ')} ${braces[1]}`;
  const indentation = `\n${' '.repeat(ctx.indentationLvl)}`;
  const open = base === '' && braces[0].length === 1 ? ' ' : `${base ? ` ${base}` : ''}\n${indentation.slice(1)}  `;
  return `${braces[0]}${open}${output.join(`,${indentation}  `)} ${braces[1]}`;
}
