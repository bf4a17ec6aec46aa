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
        // As in Kafka, whatever is wrong with the others.
        RefusedRecords::Records(refused) if refused.iter().any(|(_, reason)| is_of_time(reason)) => {
            ErrorCode::InvalidTimestamp
        }
        RefusedRecords::MaxTimestamp { .. } => ErrorCode::InvalidTimestamp,
        RefusedRecords::TooLarge { .. } => ErrorCode::MessageTooLarge,
        // A bound of our own, where Kafka has none: Java clients send the batch again in halves.
        _ if error.is_beyond_limit() => ErrorCode::MessageTooLarge,
        RefusedRecords::Records(_) | RefusedRecords::Unreadable(_) => ErrorCode::InvalidRecord,
    }
}

fn is_of_time(reason: &RefusalReason) -> bool {
    matches!(reason, RefusalReason::Timestamp { .. })
}
