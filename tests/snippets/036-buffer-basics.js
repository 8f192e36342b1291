const b = Buffer.from('héllo wörld', 'utf8');
console.log(b, b.length, b.toString(), b.toString('hex'), b.toString('base64'), b.toString('latin1'), b.toString('ascii'));
console.log(Buffer.from('aGk=', 'base64').toString(), Buffer.from('6869', 'hex').toString(), Buffer.from([104, 105, 256, -1]), Buffer.alloc(4, 'ab'), Buffer.alloc(3), Buffer.allocUnsafe(2).length, Buffer.from('zz', 'hex'));
console.log(Buffer.concat([Buffer.from('a'), Buffer.from('bc')]).toString(), Buffer.byteLength('€'), Buffer.compare(Buffer.from('a'), Buffer.from('b')), Buffer.from('abc').equals(Buffer.from('abc')), Buffer.isBuffer(b), b instanceof Uint8Array);
console.log(b.slice(0, 4).toString(), b.subarray(-3), b.indexOf('w'), b.includes('llo'), b.readUInt16BE(0), b.readInt32LE(1), b.readUInt8(0));
const w = Buffer.alloc(16); w.writeUInt32BE(0xdeadbeef, 0); w.writeInt16LE(-2, 4); w.writeDoubleBE(1.5, 6); w.write('ok', 14); console.log(w, w.readDoubleBE(6), w.toJSON());
console.log(JSON.stringify(Buffer.from('hi')), [...Buffer.from('hi').entries()], Buffer.from(Buffer.from('x')), Buffer.from(new Uint8Array([1, 2]).buffer), Buffer.from('abc').fill('x').toString(), Buffer.from('abcd').swap16());
console.log({ buf: Buffer.from('nested') }, [Buffer.from('a')], Buffer.from('x'.repeat(60)), Buffer.from('test').toString('base64url'), Buffer.from('_-8', 'base64url'), Buffer.from('a\u0000b').toString('utf16le').length);
for (const f of [() => Buffer.from(5), () => b.readUInt8(100), () => Buffer.alloc(-1), () => Buffer.from('a').toString('nope'), () => w.writeUInt8(300, 0)]) { try { f(); } catch (e) { console.log(e.name, e.code, e.message); } }
console.log(new TextEncoder().encode('€'), new TextDecoder().decode(new Uint8Array([226, 130, 172, 255])), btoa('hello'), atob('aGVsbG8='), Buffer.from('€').reverse().toString('hex'), encodeURIComponent('a b&c/é'), escape('é x'), unescape('%E9'));
const big = Buffer.alloc(8); big.writeBigInt64BE(-5n); console.log(big.readBigUInt64BE(), big, big.readIntBE(2, 6)); console.log(Buffer.from([0xff, 0xfe, 0x41]).toString(), Buffer.from('\ud83d').toString('hex'), Buffer.from('ab').toString('utf16le'), Buffer.poolSize > 0);
