// UTF-8 encoding for the source's buffer module.
import { native } from 'plimsoll:internal/native';

export const encode = native.utf8Encode;
export const utf8_byte_length = native.utf8Length;
export function encode_into(text, target) {
  const { 0: read, 1: written } = native.utf8EncodeInto(text, target);
  return { read, written };
}
