//! Any bytes as a request frame: header, then the body its key and version name.
#![no_main]

#[path = "../../net/wire/tests/hostile/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    tidemill_fuzz::memory::bounded(frame, bodies::request_decode);
});
