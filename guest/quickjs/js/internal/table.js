// `console.table`: rows of an array, object, Map or Set in a box.
import { native } from 'plimsoll:kernel/native';
import { inspect } from 'plimsoll:internal/inspect';
import { getStringWidth } from 'plimsoll:internal/text';
import * as types from 'plimsoll:internal/types';

const mapIterator = native.classId(new Map().keys());
const setIterator = native.classId(new Set().keys());
const mapClass = native.classId(new Map());
const setClass = native.classId(new Set());

const INDEX = '(index)';
const ITERATION = '(iteration index)';
const VALUES = 'Values';

function cell(value) {
  const depth = value !== null && typeof value === 'object' && !Array.isArray(value) && !types.isTypedArray(value) && Object.keys(value).length > 2 ? -1 : 0;
  return inspect(value, { maxArrayLength: 3, breakLength: Infinity, depth });
}

function draw(head, columns) {
  const height = Math.max(0, ...columns.map((column) => column.length));
  const widths = columns.map((column, i) =>
    Math.max(getStringWidth(head[i]), ...column.map((text) => getStringWidth(text ?? ''))) + 2,
  );
  const rule = (left, middle, right) => left + widths.map((width) => '─'.repeat(width)).join(middle) + right;
  const row = (texts) =>
    `│${texts.map((text, i) => ` ${text}${' '.repeat(widths[i] - getStringWidth(text) - 1)}`).join('│')}│`;
  const lines = [rule('┌', '┬', '┐'), row(head), rule('├', '┼', '┤')];
  for (let i = 0; i < height; i++) lines.push(row(columns.map((column) => column[i] ?? '')));
  lines.push(rule('└', '┴', '┘'));
  return lines.join('\n');
}

const indices = (count) => Array.from({ length: count }, (_, i) => String(i));

/** The table's text, without a final line break. */
export function renderTable(data, properties) {
  if (types.isMap(data)) {
    const entries = [...Map.prototype.entries.call(data)];
    return draw(
      [ITERATION, 'Key', VALUES],
      [indices(entries.length), entries.map(([key]) => cell(key)), entries.map(([, value]) => cell(value))],
    );
  }
  if (types.isMapIterator(data)) {
    const { 0: flat, 1: pairs } = native.iteratorEntries(data, mapIterator, mapClass);
    if (pairs) {
      const keys = flat.filter((_, i) => i % 2 === 0);
      const values = flat.filter((_, i) => i % 2 === 1);
      return draw([ITERATION, 'Key', VALUES], [indices(keys.length), keys.map(cell), values.map(cell)]);
    }
    return draw([ITERATION, VALUES], [indices(flat.length), flat.map(cell)]);
  }
  if (types.isSet(data) || types.isSetIterator(data)) {
    const values = types.isSet(data)
      ? [...Set.prototype.values.call(data)]
      : native.iteratorEntries(data, setIterator, setClass)[0];
    return draw([ITERATION, VALUES], [indices(values.length), values.map(cell)]);
  }
  const columns = new Map();
  const values = [];
  let hasPrimitives = false;
  const rows = Object.keys(data);
  rows.forEach((rowKey, i) => {
    const item = data[rowKey];
    if (item === null || (typeof item !== 'object' && typeof item !== 'function')) {
      hasPrimitives = true;
      values[i] = cell(item);
      return;
    }
    for (const key of properties ?? Object.keys(item)) {
      if (!columns.has(key)) columns.set(key, []);
      columns.get(key)[i] = Object.hasOwn(item, key) ? cell(item[key]) : '';
    }
  });
  const head = [INDEX, ...columns.keys()];
  const body = [rows, ...columns.values()];
  if (hasPrimitives) {
    head.push(VALUES);
    body.push(values);
  }
  return draw(head.map(String), body.map((column) => Array.from({ length: rows.length }, (_, i) => column[i] ?? '')));
}
