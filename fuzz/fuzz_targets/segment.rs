//! Any bytes as a segment's files: batches, indexes, description, producer snapshot.
#![no_main]

#[path = "../../storage/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::memory::bounded(bytes, bodies::segment);
});
