//! Any bytes as a record of `__consumer_offsets`: its key, and the value that the key promises.
#![no_main]

#[path = "../../net/wire/tests/hostile/versioned.rs"]
mod versioned;

libfuzzer_sys::fuzz_target!(|record: &[u8]| {
    tidemill_fuzz::memory::bounded(record, versioned::group_record);
});
