//! With the largest memory, sizes that 32 bits cannot tell are errors a program can catch, never a write past a block.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, MAX_MEMORY_PAGES, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(120);

/// Each asks for 2^29 elements of eight bytes and some more, for a negative count where that is read as signed,
/// or for more properties than an object can chain (2^26).
const VAST: &[&str] = &[
    "Reflect.ownKeys(bytes)",
    "Object.keys(bytes)",
    "Object.entries(bytes)",
    "({ ...bytes })",
    "Object.assign({}, bytes)",
    "JSON.stringify(bytes)",
    "console.log(bytes)",
    "Object.freeze(bytes)",
    "Object.getOwnPropertyDescriptors(bytes)",
    "Reflect.ownKeys(Object.assign(new Uint8Array(2 ** 31 - 1), { a: 1, b: 2 }))",
    "Reflect.ownKeys(Object('ab'.repeat(2 ** 28 + 8)))",
    "Array.prototype.toReversed.call(bytes)",
    "Object.freeze(Array.prototype.toReversed.call(new Uint8Array(2 ** 26 + 8)))",
    "Array.prototype.toSpliced.call(bytes, 0, 1)",
    "Array.prototype.with.call(bytes, 0, 1)",
    "Array.prototype.toSorted.call({ length: 2 ** 29 + 1 })",
    "Array.prototype.toReversed.call({ length: 2 ** 31 - 1 })",
    "Reflect.apply(Math.max, null, bytes)",
    "new Uint16Array(2 ** 30 + 8).sort(() => 0)",
    "new Float64Array(2 ** 29 + 8)",
];

#[tokio::test]
async fn more_elements_than_32_bits_can_size_are_a_catchable_error() {
    let engine = Engine::new(EngineConfig {
        memory_pages: MAX_MEMORY_PAGES,
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    for code in VAST {
        let program = format!(
            "const bytes = new Uint8Array(2 ** 29 + 16);
            try {{ {code}\n console.log('no error') }} catch (error) {{ console.log(error instanceof RangeError) }}
            console.log([1, 2], {{ a: 'b' }})"
        );
        let report = engine.run(RunSpec::new(&program, TIMEOUT)).await.unwrap();
        assert_eq!((report.trap, report.exit_code), (None, 0), "{code}");
        assert_eq!(String::from_utf8(report.stderr.bytes).unwrap(), "", "{code}");
        assert_eq!(
            String::from_utf8(report.stdout.bytes).unwrap(),
            "true\n[ 1, 2 ] { a: 'b' }\n",
            "{code}"
        );
    }
}
