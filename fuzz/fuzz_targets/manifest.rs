//! Any bytes as a manifest copy, and as the record of a moved log.
#![no_main]

#[path = "../../storage/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::memory::bounded(bytes, bodies::manifest);
});
