//! What a shard counts of the requests of its connections and of the fetches it serves.

use std::cell::RefCell;
use std::collections::BTreeMap;

use base::{Counter, Histogram, Scale};
use wire::ErrorCode;

use crate::api::kafka::TABLE;

/// Requests of one API.
#[derive(Default)]
pub struct ApiMeter {
    pub requests: Counter,
    pub bytes: Counter,
}

/// A shard's requests so far.
pub struct RequestMeters {
    /// In the order of [`TABLE`].
    pub by_api: Vec<ApiMeter>,
    pub produce_check_ns: Histogram,
    pub produce_place_ns: Histogram,
    pub produce_hold_ns: Histogram,
    pub produce_ns: Histogram,
    pub produced_batches: Counter,
    pub produced_records: Counter,
    pub produced_bytes: Counter,
    pub produce_errors: Errors,
    pub fetch_read_ns: Histogram,
    pub fetch_wait_ns: Histogram,
    pub fetch_ns: Histogram,
    pub fetched_tail_bytes: Counter,
    pub fetched_disk_bytes: Counter,
    pub fetch_errors: Errors,
}

impl Default for RequestMeters {
    fn default() -> Self {
        let durations = || Histogram::new(Scale::NANOSECONDS);
        Self {
            by_api: TABLE.iter().map(|_| ApiMeter::default()).collect(),
            produce_check_ns: durations(),
            produce_place_ns: durations(),
            produce_hold_ns: durations(),
            produce_ns: durations(),
            produced_batches: Counter::default(),
            produced_records: Counter::default(),
            produced_bytes: Counter::default(),
            produce_errors: Errors::default(),
            fetch_read_ns: durations(),
            fetch_wait_ns: durations(),
            fetch_ns: durations(),
            fetched_tail_bytes: Counter::default(),
            fetched_disk_bytes: Counter::default(),
            fetch_errors: Errors::default(),
        }
    }
}

/// How often each error was answered. There are at most as many as Kafka has codes.
#[derive(Default)]
pub struct Errors(RefCell<BTreeMap<ErrorCode, u64>>);

impl Errors {
    /// Counts `error` if it is one.
    pub fn note(&self, error: ErrorCode) {
        if error.is_error() {
            *self.0.borrow_mut().entry(error).or_default() += 1;
        }
    }

    /// Kafka's name of each that was met, and how often.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        self.0.borrow().iter().map(|(error, count)| (error.name(), *count)).collect()
    }
}
