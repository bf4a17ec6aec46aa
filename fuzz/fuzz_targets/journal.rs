//! Any bytes as a journal file, and as the entries of a commit.
#![no_main]

#[path = "../../storage/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::memory::bounded(bytes, bodies::journal);
});
