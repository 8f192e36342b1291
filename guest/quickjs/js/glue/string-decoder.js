// UTF-8 decoding of a part of an array for the source's buffer and string decoder.
import { native } from 'plimsoll:internal/native';

export const utf8_decode = (bytes, start = 0, end = bytes.length) => native.utf8Decode(bytes.subarray(start, end), false);
