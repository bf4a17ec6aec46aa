//! Reads that fail: Kafka's code for each, and the line in the log, once.

use std::collections::BTreeSet;

use storage::ReadError;
use wire::ErrorCode;

use super::Partition;

/// Failures of a partition that are told apart; after so many it has been said often enough that its files are bad.
const FAILURES_SAID_MAX: usize = 64;

/// What was said of a partition's reads that failed: a client asks again and again.
#[derive(Default)]
pub struct FailuresSaid(BTreeSet<String>);

impl FailuresSaid {
    /// True the first time, while there is room to remember it.
    fn is_new(&mut self, failure: &str) -> bool {
        self.0.len() < FAILURES_SAID_MAX && self.0.insert(failure.to_owned())
    }
}

impl Partition {
    /// The code for a read that failed; what an operator must know of it is logged the first time.
    pub fn read_failed(&self, error: &ReadError) -> ErrorCode {
        // That the log went offline was said when it did, with the reason; where it starts and ends is its clients' affair.
        let is_news = !matches!(error, ReadError::Offline | ReadError::OutOfRange { .. });
        if is_news && self.failures_said.borrow_mut().is_new(&error.to_string()) {
            let (topic, partition) = (self.log.topic(), self.log.id().partition);
            tracing::error!(
                topic, %partition,
                "a read failed: {error}; the other partitions are served; stop the broker and run `tidemill log verify` for all that is damaged"
            );
        }
        code(error)
    }
}

/// Kafka's code. Damage is CORRUPT_MESSAGE, as in Kafka where a broker meets it: consumers report that to their application, while
/// they retry KAFKA_STORAGE_ERROR for ever without a word.
fn code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Records { .. } | ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
        ReadError::Offline | ReadError::Io { .. } => ErrorCode::KafkaStorageError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_said_once_and_not_without_end() {
        let mut said = FailuresSaid::default();
        assert!(said.is_new("a") && said.is_new("b"));
        assert!(!said.is_new("a") && !said.is_new("b"));
        let news = (0..1000).filter(|number| said.is_new(&number.to_string())).count();
        assert_eq!(news, FAILURES_SAID_MAX - 2);
    }
}
