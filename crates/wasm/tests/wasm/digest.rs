//! The digests behind node's `createHash`, against digests made by other implementations.

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

#[tokio::test]
async fn digests_match_published_vectors_and_every_padding_length() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let code = "const { createHash } = require('crypto');
        for (const name of ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'])
            console.log(name, createHash(name).update('abc').digest('hex'));
        for (const name of ['md5', 'sha256', 'sha512']) {
            let chain = createHash(name);
            for (let length = 0; length < 260; length++) {
                const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 7 + 3) & 255));
                chain.update(createHash(name).update(bytes).digest());
            }
            console.log(name, chain.digest('hex'));
        }";
    let report = engine.run(RunSpec::new(code, Duration::from_secs(20))).await.unwrap();
    // First the vectors of RFC 1321 and FIPS 180-4, then values made with Python's hashlib.
    let expected = "\
md5 900150983cd24fb0d6963f7d28e17f72
sha1 a9993e364706816aba3e25717850c26c9cd0d89d
sha224 23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7
sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
sha384 cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7
sha512 ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f
md5 f400e3dbf7c037ac431700fb565f9632
sha256 d6ed1a47ea2944ad7c9eaa695aaa1d9bb5dcc0313186a43b70bc86f556664c5f
sha512 43df96e21b7e3e51158aac26213cc4274049a6ec3a16f547a1a03e3ad2ac8723ce8684d3f71f8a619b08bf7b0894e0d28627a3b68c892a4d11e31daa77fb85b0
";
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        expected,
        "{:?}",
        report.stderr
    );
}
