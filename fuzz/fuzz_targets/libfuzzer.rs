//! The entry point for libFuzzer: PERDURA_FUZZ_TARGET names the target. See .ci/fuzz.

#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<&perdura_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("PERDURA_FUZZ_TARGET").unwrap_or_default();
    perdura_fuzz::target(&name).expect("PERDURA_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
