// The inspector under the names the source's modules use.
export { inspect } from 'plimsoll:internal/inspect';
export { format, formatWithOptions } from 'plimsoll:internal/format';
export { getStringWidth, stripControlSequences as stripVTControlCharacters } from 'plimsoll:internal/text';
