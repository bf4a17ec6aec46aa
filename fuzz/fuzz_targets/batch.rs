//! Any bytes as a run of record batches: headers, the checks on Produce, records, decompression.
#![no_main]

#[path = "../../storage/record/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::memory::bounded(bytes, bodies::batch_headers);
    bodies::batch(bytes);
});
