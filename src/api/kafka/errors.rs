//! The one table from a batch's own faults to Kafka's error codes.

use record::{InvalidBatch, RefusalKind, RefusalReason, RefusedRecords};
use wire::ErrorCode;

/// What Kafka answers for each way a produced batch can be invalid.
#[must_use]
pub fn invalid_batch(error: &InvalidBatch) -> ErrorCode {
    match error.kind() {
        RefusalKind::CorruptMessage => ErrorCode::CorruptMessage,
        RefusalKind::InvalidRecord => ErrorCode::InvalidRecord,
        RefusalKind::MessageTooLarge => ErrorCode::MessageTooLarge,
        RefusalKind::UnsupportedCompressionType => ErrorCode::UnsupportedCompressionType,
        RefusalKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
    }
}

/// What Kafka answers for a record that breaks a rule of its topic.
#[must_use]
pub fn refused_records(error: &RefusedRecords) -> ErrorCode {
    match error {
        RefusedRecords::Record { reason: RefusalReason::Timestamp { .. }, .. }
        | RefusedRecords::MaxTimestamp { .. } => ErrorCode::InvalidTimestamp,
        RefusedRecords::TooLarge { .. } => ErrorCode::MessageTooLarge,
        // A bound of our own, where Kafka has none: Java clients send the batch again in halves.
        _ if error.is_beyond_limit() => ErrorCode::MessageTooLarge,
        RefusedRecords::Record { .. } | RefusedRecords::Unreadable(_) => ErrorCode::InvalidRecord,
    }
}
