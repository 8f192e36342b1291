//! The settings of wasmtime that compiled code and the engine running it must agree on. Shared between the build script,
//! which compiles the engine image, and the runtime, which loads it; wasmtime refuses to load an artifact that disagrees.

use wasmtime::Config;

/// Address space kept per linear memory: all a 32-bit memory can reach, so that no access needs a bounds check.
pub(crate) const MEMORY_RESERVATION: u64 = 4 << 30;

/// Unmapped space behind it. Constant offsets of loads and stores below this need no check either.
pub(crate) const MEMORY_GUARD: u64 = 32 << 20;

/// Memory up to this size starts as a copy-on-write view of the artifact, holes included. A larger image would silently be
/// copied into every instance instead, a hundred times slower; the build refuses to make one.
pub(crate) const MAX_IMAGE: u64 = 64 << 20;

/// A configuration with everything the two sides share set.
pub(crate) fn image_config() -> Config {
    let mut config = Config::new();
    config
        // Every function entry and loop head compares the epoch: nothing a guest does escapes its deadline.
        .epoch_interruption(true)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .memory_may_move(false)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(MAX_IMAGE)
        // One thread per instance and no component model: nothing of the two is linked.
        .concurrency_support(false)
        .wasm_simd(true)
        .wasm_relaxed_simd(false)
        .wasm_bulk_memory(true)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_tail_call(false)
        .wasm_backtrace_max_frames(None);
    config
}
