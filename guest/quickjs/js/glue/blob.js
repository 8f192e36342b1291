// The bytes behind `Blob` and `File`.
import { native } from 'plimsoll:internal/native';

function bytesOf(part) {
  if (part instanceof Blob) return part.bytes;
  if (ArrayBuffer.isView(part)) return new Uint8Array(part.buffer, part.byteOffset, part.byteLength).slice();
  if (part instanceof ArrayBuffer) return new Uint8Array(part).slice();
  return native.utf8Encode(`${part}`);
}

export class Blob {
  constructor(parts = [], options = {}) {
    const pieces = Array.from(parts, bytesOf);
    this.bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      this.bytes.set(piece, at);
      at += piece.length;
    }
    this.type = `${options.type ?? ''}`;
  }

  get size() {
    return this.bytes.length;
  }

  slice(start, end, type = '') {
    return new Blob([this.bytes.slice(start, end)], { type });
  }

  async arrayBuffer() {
    return this.bytes.slice().buffer;
  }

  async text() {
    return native.utf8Decode(this.bytes, false);
  }

  stream() {
    throw new Error('Streams are not available in this sandbox; read the blob with text() or arrayBuffer()');
  }
}

export class File extends Blob {}
