//! Any bytes as what consumers tell each other: as a subscription, and as an assignment.
#![no_main]

#[path = "../../net/wire/tests/hostile/versioned.rs"]
mod versioned;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tidemill_fuzz::memory::bounded(bytes, versioned::subscription);
    tidemill_fuzz::memory::bounded(bytes, versioned::assignment);
});
