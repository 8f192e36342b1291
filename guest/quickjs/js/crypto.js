// `crypto`: digests, HMAC and randomness. Randomness is the run's seeded stream: two runs of a program draw the same.
import { native } from 'plimsoll:internal/native';
import {
  codes, codedError, ERR_CRYPTO_HASH_FINALIZED, ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH,
} from 'plimsoll:internal/errors';
import { DOMException } from 'plimsoll:internal/event-target';
import { nextTick } from 'plimsoll:internal/loop';
import { isAnyArrayBuffer } from 'plimsoll:internal/types';
import { Buffer } from 'node:buffer';

// Name as programs write it (lower-cased) → our digest and its block size in bytes.
const DIGESTS = new Map();
for (const [name, block] of [['md5', 64], ['sha1', 64], ['sha224', 64], ['sha256', 64], ['sha384', 128], ['sha512', 128]]) {
  const entry = { name, block };
  DIGESTS.set(name, entry);
  DIGESTS.set(`rsa-${name}`, entry);
  if (name.startsWith('sha')) DIGESTS.set(name.replace('sha', 'sha-'), entry);
}

export const getHashes = () => ['RSA-MD5', 'RSA-SHA1', 'RSA-SHA224', 'RSA-SHA256', 'RSA-SHA384', 'RSA-SHA512', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'];

const BYTES = ['string', 'Buffer', 'TypedArray', 'DataView'];

function bytesOf(data, encoding, name = 'data') {
  if (typeof data === 'string') return Buffer.from(data, encoding === 'buffer' ? 'utf8' : encoding);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (isAnyArrayBuffer(data)) return new Uint8Array(data);
  throw new codes.ERR_INVALID_ARG_TYPE(name, BYTES, data);
}

function digestNamed(algorithm, refuse) {
  if (typeof algorithm !== 'string') throw new codes.ERR_INVALID_ARG_TYPE('algorithm', 'string', algorithm);
  const digest = DIGESTS.get(algorithm.toLowerCase());
  if (digest === undefined) throw refuse();
  return digest;
}

function encoded(bytes, encoding) {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return encoding === undefined || encoding === 'buffer' ? buffer : buffer.toString(encoding);
}

/** The pieces are kept and digested at the end: the native digests are one-shot. */
export class Hash {
  #digest;
  #pieces = [];
  #done = false;

  constructor(algorithm) {
    this.#digest = digestNamed(algorithm, () => new Error('Digest method not supported'));
  }

  update(data, encoding = undefined) {
    if (this.#done) throw new ERR_CRYPTO_HASH_FINALIZED();
    this.#pieces.push(bytesOf(data, encoding).slice());
    return this;
  }

  copy() {
    if (this.#done) throw new ERR_CRYPTO_HASH_FINALIZED();
    const copy = new Hash(this.#digest.name);
    copy.#pieces = [...this.#pieces];
    return copy;
  }

  digest(encoding = undefined) {
    if (this.#done) throw new ERR_CRYPTO_HASH_FINALIZED();
    this.#done = true;
    return encoded(native.digest(this.#digest.name, Buffer.concat(this.#pieces)), encoding);
  }
}

export class Hmac {
  #digest;
  #key;
  #pieces = [];
  #done = false;

  constructor(algorithm, key) {
    this.#digest = digestNamed(algorithm, () => codedError(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${algorithm}`));
    let bytes = bytesOf(key, 'utf8', 'key');
    if (bytes.length > this.#digest.block) bytes = native.digest(this.#digest.name, bytes);
    this.#key = new Uint8Array(this.#digest.block);
    this.#key.set(bytes);
  }

  update(data, encoding = undefined) {
    if (this.#done) throw new ERR_CRYPTO_HASH_FINALIZED();
    this.#pieces.push(bytesOf(data, encoding).slice());
    return this;
  }

  digest(encoding = undefined) {
    if (this.#done) return encoded(new Uint8Array(0), encoding);
    this.#done = true;
    const { name } = this.#digest;
    const inner = native.digest(name, Buffer.concat([this.#key.map((byte) => byte ^ 0x36), ...this.#pieces]));
    return encoded(native.digest(name, Buffer.concat([this.#key.map((byte) => byte ^ 0x5c), inner])), encoding);
  }
}

export const createHash = (algorithm) => new Hash(algorithm);
export const createHmac = (algorithm, key) => new Hmac(algorithm, key);

/** One-shot digest; hexadecimal unless another encoding is asked for. */
export function hash(algorithm, data, encoding = 'hex') {
  return new Hash(algorithm).update(data).digest(encoding);
}

export function timingSafeEqual(a, b) {
  const left = bytesOf(typeof a === 'string' ? null : a, undefined, 'buf1');
  const right = bytesOf(typeof b === 'string' ? null : b, undefined, 'buf2');
  if (left.length !== right.length) throw new ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH();
  let difference = 0;
  for (let i = 0; i < left.length; i++) difference |= left[i] ^ right[i];
  return difference === 0;
}

const QUOTA = 65536;

export function getRandomValues(array) {
  if (!ArrayBuffer.isView(array) || array instanceof Float32Array || array instanceof Float64Array || array instanceof DataView) {
    throw new DOMException('The data argument must be an integer-type TypedArray', 'TypeMismatchError');
  }
  if (array.byteLength > QUOTA) {
    throw new DOMException(
      `The requested length exceeds ${QUOTA} bytes. It is ${array.byteLength} bytes long`, 'QuotaExceededError',
    );
  }
  native.randomFill(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  return array;
}

export function randomUUID() {
  const bytes = native.randomFill(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const LONGEST = 2 ** 31 - 1;

export function randomBytes(size, callback = undefined) {
  if (typeof size !== 'number') throw new codes.ERR_INVALID_ARG_TYPE('size', 'number', size);
  if (!Number.isInteger(size) || size < 0 || size > LONGEST) {
    throw new codes.ERR_OUT_OF_RANGE('size', `>= 0 && <= ${LONGEST}`, size);
  }
  const bytes = Buffer.alloc(size);
  native.randomFill(bytes);
  if (callback === undefined) return bytes;
  nextTick(callback, null, bytes);
  return undefined;
}

export function randomFillSync(buffer, offset = 0, size = buffer.byteLength - offset) {
  native.randomFill(new Uint8Array(buffer.buffer ?? buffer, (buffer.byteOffset ?? 0) + offset, size));
  return buffer;
}

export function randomFill(buffer, ...rest) {
  const callback = rest.pop();
  randomFillSync(buffer, ...rest);
  nextTick(callback, null, buffer);
}

const RANGE = 2 ** 48;

export function randomInt(min, max = undefined, callback = undefined) {
  if (max === undefined || typeof max === 'function') {
    callback = max;
    max = min;
    min = 0;
  }
  for (const [name, value] of [['min', min], ['max', max]]) {
    if (!Number.isSafeInteger(value)) throw new codes.ERR_INVALID_ARG_TYPE(name, 'a safe integer', value);
  }
  if (max <= min) throw new codes.ERR_OUT_OF_RANGE('max', `greater than the value of "min" (${min})`, max);
  const range = max - min;
  if (range >= RANGE) throw new codes.ERR_OUT_OF_RANGE(min === 0 ? 'max' : 'max - min', `<= ${RANGE - 1}`, range);
  const limit = RANGE - (RANGE % range);
  const bytes = new Uint8Array(6);
  let drawn;
  do {
    native.randomFill(bytes);
    drawn = bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  } while (drawn >= limit);
  const result = min + (drawn % range);
  if (callback === undefined) return result;
  nextTick(callback, null, result);
  return undefined;
}

/** `crypto.subtle`: digests only. */
const subtle = {
  async digest(algorithm, data) {
    const name = typeof algorithm === 'string' ? algorithm : algorithm?.name;
    const digest = /^sha-(?:1|256|384|512)$/i.test(name) ? DIGESTS.get(name.toLowerCase()) : undefined;
    if (digest === undefined) throw new DOMException('Unrecognized algorithm name', 'NotSupportedError');
    return native.digest(digest.name, bytesOf(data)).buffer;
  },
};

class Crypto {
  get subtle() {
    return subtle;
  }

  getRandomValues(array) {
    return getRandomValues(array);
  }

  randomUUID() {
    return randomUUID();
  }
}
Object.defineProperty(Crypto.prototype, Symbol.toStringTag, { value: 'Crypto', configurable: true });

export const webcrypto = new Crypto();

export default {
  createHash, createHmac, getHashes, getRandomValues, hash, Hash, Hmac, randomBytes, randomFill, randomFillSync, randomInt,
  randomUUID, subtle, timingSafeEqual, webcrypto,
};
