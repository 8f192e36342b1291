// `util`: the source's module with our inspector, types and encoders in it.
import theirs, { innerDeepEqual, isDeepStrictEqual } from 'wasm-rquickjs/util';
import { inspect } from 'plimsoll:internal/inspect';
import { format, formatWithOptions } from 'plimsoll:internal/format';
import { stripControlSequences } from 'plimsoll:internal/text';
import { TextEncoder, TextDecoder } from 'plimsoll:internal/encoding';
import { codes } from 'plimsoll:internal/errors';
import types from 'node:util/types';

function stripVTControlCharacters(text) {
  if (typeof text !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('str', 'string', text);
  return stripControlSequences(text);
}

const util = { ...theirs };
for (const name of Object.keys(util)) {
  // Deprecated years ago and gone from later releases; or about sources this world does not keep.
  if (/^(?:getCallSites?|transferableAbort.*|innerDeepEqual)$/.test(name)) delete util[name];
}
Object.assign(util, { inspect, format, formatWithOptions, stripVTControlCharacters, types, TextEncoder, TextDecoder });

export { inspect, innerDeepEqual, isDeepStrictEqual };
export default util;
