//! The promise about hostile input: reading it takes at most four times its size and 64 KiB.
//!
//! Included by the fuzz targets and, by path, by the tests that run the same bodies. It brings its global allocator with it,
//! which counts for the whole process: a test program that measures has one test.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes that any input may cost, however short it is.
const FIXED_BYTES: usize = 64 << 10;

/// Runs `body` and gives its result and the most memory it held at once, in bytes.
pub fn measured<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = body();
    (result, ALLOCATOR.peak_usage().saturating_sub(before))
}

/// Runs `body` on `input` and panics if it held more memory than the promise allows.
pub fn bounded<T>(input: &[u8], body: impl FnOnce(&[u8]) -> T) -> T {
    let (result, peak_bytes) = measured(|| body(input));
    let limit = 4 * input.len() + FIXED_BYTES;
    assert!(peak_bytes <= limit, "{peak_bytes} bytes held to read {} bytes", input.len());
    result
}
