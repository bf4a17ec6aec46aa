//! Any bytes as the response to any request.
#![no_main]

#[path = "../../net/wire/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    tidemill_fuzz::memory::bounded(input, bodies::response_decode);
});
