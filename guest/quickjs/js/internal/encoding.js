// TextEncoder, TextDecoder, atob and btoa.
import { native } from 'plimsoll:internal/native';
import { codes, ERR_MISSING_ARGS, ERR_ENCODING_NOT_SUPPORTED, ERR_ENCODING_INVALID_ENCODED_DATA } from 'plimsoll:internal/errors';
import { DOMException } from 'plimsoll:internal/event-target';
import { customInspect, inspect } from 'plimsoll:internal/inspect';
import { markClasses } from 'plimsoll:internal/inspect-names';
import { isAnyArrayBuffer } from 'plimsoll:internal/types';

export class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(input = '') {
    return native.utf8Encode(`${input}`);
  }

  encodeInto(source, target) {
    if (typeof source !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('src', 'string', source);
    if (!(target instanceof Uint8Array)) throw new codes.ERR_INVALID_ARG_TYPE('dest', 'Uint8Array', target);
    const { 0: read, 1: written } = native.utf8EncodeInto(source, target);
    return { read, written };
  }

  [customInspect](depth, options) {
    return inspect({ encoding: 'utf-8' }, options);
  }
}
Object.defineProperty(TextEncoder.prototype, Symbol.toStringTag, { value: 'TextEncoder', configurable: true });

// The labels programs use; the Encoding Standard maps ISO 8859-1 and ASCII to windows-1252.
const labels = new Map([
  ...['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8', 'x-unicode20utf8'].map((label) => [label, 'utf-8']),
  ...['utf-16le', 'utf-16', 'ucs-2', 'unicode', 'iso-10646-ucs-2', 'csunicode', 'unicodefeff'].map((label) => [label, 'utf-16le']),
  ...['utf-16be', 'unicodefffe'].map((label) => [label, 'utf-16be']),
  ...['latin1', 'iso-8859-1', 'iso8859-1', 'iso88591', 'ascii', 'us-ascii', 'windows-1252', 'cp1252', 'x-cp1252', 'l1'].map(
    (label) => [label, 'windows-1252'],
  ),
]);

// Windows-1252 where it differs from Latin-1, 0x80..0x9f.
const WINDOWS_1252 = '\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178';

/** Bytes at the end that begin a UTF-8 sequence without ending it. */
function unfinishedUtf8(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return size > back ? back : 0;
  }
  return 0;
}

function decodeUtf16(bytes, bigEndian) {
  let text = '';
  for (let i = 0; i + 1 < bytes.length; i += 2) {
    text += String.fromCharCode(bigEndian ? (bytes[i] << 8) | bytes[i + 1] : bytes[i] | (bytes[i + 1] << 8));
  }
  return text;
}

const NO_BYTES = new Uint8Array(0);

export class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #pending = NO_BYTES;
  #started = false;

  constructor(label = 'utf-8', options = undefined) {
    const encoding = labels.get(`${label}`.trim().toLowerCase());
    if (encoding === undefined) throw new ERR_ENCODING_NOT_SUPPORTED(`${label}`);
    this.#encoding = encoding;
    this.#fatal = !!options?.fatal;
    this.#ignoreBOM = !!options?.ignoreBOM;
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBOM;
  }

  decode(input = NO_BYTES, options = undefined) {
    let bytes;
    if (isAnyArrayBuffer(input)) bytes = new Uint8Array(input);
    else if (ArrayBuffer.isView(input)) bytes = new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    else throw new codes.ERR_INVALID_ARG_TYPE('list', ['SharedArrayBuffer', 'ArrayBuffer', 'ArrayBufferView'], input);
    if (this.#pending.length > 0) {
      const joined = new Uint8Array(this.#pending.length + bytes.length);
      joined.set(this.#pending);
      joined.set(bytes, this.#pending.length);
      bytes = joined;
    }
    const stream = !!options?.stream;
    let left = 0;
    if (stream) left = this.#encoding === 'utf-8' ? unfinishedUtf8(bytes) : this.#encoding === 'windows-1252' ? 0 : bytes.length % 2;
    this.#pending = left > 0 ? bytes.slice(bytes.length - left) : NO_BYTES;
    let text = this.#convert(left > 0 ? bytes.subarray(0, bytes.length - left) : bytes);
    if (!this.#started && !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.#started = stream && (this.#started || text.length > 0);
    return text;
  }

  #convert(bytes) {
    if (this.#encoding === 'utf-8') {
      if (!this.#fatal) return native.utf8Decode(bytes, false);
      try {
        return native.utf8Decode(bytes, true);
      } catch {
        throw new ERR_ENCODING_INVALID_ENCODED_DATA(this.#encoding);
      }
    }
    if (this.#encoding === 'windows-1252') {
      let text = '';
      for (const byte of bytes) text += byte >= 0x80 && byte < 0xa0 ? WINDOWS_1252[byte - 0x80] : String.fromCharCode(byte);
      return text;
    }
    const text = decodeUtf16(bytes, this.#encoding === 'utf-16be');
    if (this.#fatal && (bytes.length % 2 !== 0 || !text.isWellFormed())) {
      throw new ERR_ENCODING_INVALID_ENCODED_DATA(this.#encoding);
    }
    return text.toWellFormed() + (bytes.length % 2 === 0 ? '' : '\ufffd');
  }

  [customInspect](depth, options) {
    return `TextDecoder ${inspect({ encoding: this.#encoding, fatal: this.#fatal, ignoreBOM: this.#ignoreBOM }, options)}`;
  }
}
Object.defineProperty(TextDecoder.prototype, Symbol.toStringTag, { value: 'TextDecoder', configurable: true });
markClasses(TextEncoder, TextDecoder);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function btoa(input) {
  if (arguments.length === 0) throw new ERR_MISSING_ARGS('input');
  const text = `${input}`;
  let out = '';
  for (let i = 0; i < text.length; i += 3) {
    let word = 0;
    for (let k = 0; k < 3; k++) {
      const code = i + k < text.length ? text.charCodeAt(i + k) : 0;
      if (code > 255) throw new DOMException('Invalid character', 'InvalidCharacterError');
      word = (word << 8) | code;
    }
    for (let k = 0; k < 4; k++) out += i + k > text.length ? '=' : ALPHABET[(word >> (18 - 6 * k)) & 63];
  }
  return out;
}

const values = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i++) values[ALPHABET.charCodeAt(i)] = i;

export function atob(input) {
  if (arguments.length === 0) throw new ERR_MISSING_ARGS('input');
  let text = `${input}`.replace(/[\t\n\f\r ]/g, '');
  if (text.length % 4 === 0) text = text.replace(/={1,2}$/, '');
  const wrong = () => new DOMException('The string to be decoded is not correctly encoded.', 'InvalidCharacterError');
  if (text.length % 4 === 1) throw wrong();
  let out = '';
  let word = 0;
  let bits = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 127 || values[code] < 0) throw wrong();
    word = ((word << 6) | values[code]) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += String.fromCharCode((word >> bits) & 0xff);
    }
  }
  return out;
}
