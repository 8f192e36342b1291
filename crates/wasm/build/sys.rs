//! The one call that wasmtime marks unsafe at build time.

#![expect(unsafe_code, reason = "wasmtime marks compiler flags unsafe")]

use wasmtime::Config;

/// Switches a CPU feature of the compiler on.
pub(crate) fn enable_cpu_feature(config: &mut Config, name: &str) {
    // SAFETY: the flag only allows instructions of the named CPU feature. When the artifact is loaded, wasmtime compares
    // the features it was compiled for with the CPU it runs on and refuses a mismatch.
    unsafe {
        config.cranelift_flag_enable(name);
    }
}
