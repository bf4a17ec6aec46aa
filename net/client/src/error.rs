//! What can go wrong between a client and its cluster, and what each failure tells about what happened.
//!
//! One enum for everything that asks a broker something; the producer and the consumer have their own on top of it. All are plain
//! data: one failure of a connection is handed to everybody who waited on it.

use std::fmt;
use std::time::Duration;

use wire::{ApiKey, DecodeError, EncodeError, ErrorCode};

/// Why a request has no answer, or not the one it wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// No connection could be made; nothing was sent.
    Connect { address: String, cause: String },
    /// None of the brokers could be reached.
    Unreachable { causes: Vec<Error> },
    /// The connection ended before the answer came: the request may or may not have been carried out.
    Closed { address: String, cause: String },
    /// No answer in time: the request may or may not have been carried out.
    TimedOut { what: String, after: Duration },
    /// The request has no form at the version it would be sent in.
    Encode { key: ApiKey, error: EncodeError },
    /// The answer is not what the protocol says it should be.
    Decode { key: ApiKey, error: DecodeError },
    /// The answer is well formed and makes no sense.
    Nonsense { key: ApiKey, what: &'static str },
    /// Broker and client have no version of this API in common.
    Unsupported { key: ApiKey, ours: (i16, i16), theirs: Option<(i16, i16)> },
    /// The broker answered with an error.
    Refused { what: String, code: ErrorCode, message: Option<String> },
    /// The topic does not exist, or did not for as long as that may be put down to news on its way.
    NoTopic { topic: String },
    /// The topic has no such partition, as far as the cluster's metadata goes.
    NoPartition { topic: String, partition: i32, partition_count: usize },
}

impl Error {
    /// The broker's refusal of `what`.
    pub(crate) fn refused(what: impl Into<String>, code: ErrorCode, message: Option<&str>) -> Self {
        Self::Refused { what: what.into(), code, message: message.map(str::to_owned) }
    }

    /// Whether the same request may succeed later, perhaps at another broker.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Unreachable { .. } | Self::Closed { .. } | Self::TimedOut { .. } => true,
            Self::Refused { code, .. } => code.is_retriable(),
            Self::Encode { .. }
            | Self::Decode { .. }
            | Self::Nonsense { .. }
            | Self::Unsupported { .. }
            | Self::NoTopic { .. }
            | Self::NoPartition { .. } => false,
        }
    }

    /// Whether what the client believes about topics and leaders may be the reason.
    #[must_use]
    pub fn is_about_metadata(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Unreachable { .. } | Self::Closed { .. } | Self::TimedOut { .. } => true,
            Self::Refused { code, .. } => is_about_metadata(*code),
            _ => false,
        }
    }

    /// Whether no broker could be talked to at all.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Unreachable { .. })
    }

    /// Whether the request may have been carried out although this error says that it failed: a time-out means "unknown",
    /// never "failed".
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Closed { .. } | Self::TimedOut { .. } | Self::Decode { .. } | Self::Nonsense { .. } => true,
            Self::Refused { code, .. } => may_have_happened(*code),
            Self::Connect { .. }
            | Self::Unreachable { .. }
            | Self::Encode { .. }
            | Self::Unsupported { .. }
            | Self::NoTopic { .. }
            | Self::NoPartition { .. } => false,
        }
    }

    /// The broker's error code, if it answered with one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::NoTopic { .. } => Some(ErrorCode::UnknownTopicOrPartition),
            _ => None,
        }
    }
}

/// The codes after which the metadata is asked for anew.
pub(crate) fn is_about_metadata(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::ListenerNotFound
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::NotController
            | ErrorCode::RebootstrapRequired
    )
}

/// The codes that leave open whether the request was carried out.
pub(crate) fn may_have_happened(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::RequestTimedOut
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::KafkaStorageError
            | ErrorCode::UnknownServerError
            // The broker may have ceased to lead after the append and before its replication.
            | ErrorCode::NotLeaderOrFollower
    )
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { address, cause } => write!(f, "cannot connect to {address}: {cause}"),
            Self::Unreachable { causes } => {
                f.write_str("no broker can be reached")?;
                causes.iter().try_for_each(|cause| write!(f, "; {cause}"))
            }
            Self::Closed { address, cause } => write!(f, "the connection to {address} ended: {cause}"),
            Self::TimedOut { what, after } => write!(f, "{what}: no answer within {} ms", after.as_millis()),
            Self::Encode { key, error } => write!(f, "the {key} request cannot be sent: {error}"),
            Self::Decode { key, error } => write!(f, "the answer to {key} is malformed: {error}"),
            Self::Nonsense { key, what } => write!(f, "the answer to {key} makes no sense: {what}"),
            Self::Unsupported { key, ours, theirs: None } => {
                write!(f, "the broker does not serve {key} (wanted: versions {} to {})", ours.0, ours.1)
            }
            Self::Unsupported { key, ours, theirs: Some(theirs) } => write!(
                f,
                "no common version of {key}: the broker has {} to {}, the client {} to {}",
                theirs.0, theirs.1, ours.0, ours.1
            ),
            Self::Refused { what, code, message: Some(message) } => {
                write!(f, "{what}: {message} ({} {})", code.name(), code.code())
            }
            Self::Refused { what, code, message: None } => write!(f, "{what}: {code}"),
            Self::NoTopic { topic } => write!(f, "there is no topic {topic}"),
            Self::NoPartition { topic, partition, partition_count } => {
                write!(f, "topic {topic} has no partition {partition}: it has {partition_count}")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_error_tells() {
        let closed = Error::Closed { address: "a:1".into(), cause: "reset".into() };
        let connect = Error::Connect { address: "a:1".into(), cause: "refused".into() };
        let refused = |code| Error::refused("topic t", code, None);
        // error, retriable, about metadata, may have happened
        let table = [
            (closed, true, true, true),
            (connect, true, true, false),
            (refused(ErrorCode::NotLeaderOrFollower), true, true, true),
            (refused(ErrorCode::NotEnoughReplicas), true, false, false),
            (refused(ErrorCode::RequestTimedOut), true, false, true),
            (refused(ErrorCode::TopicAlreadyExists), false, false, false),
            (Error::Nonsense { key: ApiKey::Fetch, what: "nothing" }, false, false, true),
        ];
        for (error, retriable, metadata, happened) in table {
            let seen = (error.is_retriable(), error.is_about_metadata(), error.may_have_happened());
            assert_eq!(seen, (retriable, metadata, happened), "{error}");
        }
    }
}
