//! The records of `__consumer_offsets`, byte for byte as Kafka 4.4 reads and writes them, so that its tools read our log and
//! a log of its can be read here.
//!
//! A record's key says what kind of record it is and whom it is about ([`Key`]); its value is the struct of that kind, at a
//! version of its own ([`Value`]). A record without a value is a tombstone: what the key names is gone. Every version that
//! Kafka has written is read; what is written has the version that Kafka 4.4 gives it.
//!
//! Field names, order, versions and defaults are those of the definitions in Kafka's `kafka-group-coordinator` jar
//! (`common/message/*.json`), but that a nullable string is null by default where Kafka has an empty one.

mod consumer_group;
mod group_metadata;
mod key;
mod offset_commit;

pub use consumer_group::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, CurrentPartitions, PartitionMetadata, TargetPartitions, TopicMetadata,
    member_state,
};
pub use group_metadata::{GroupMetadataValue, MemberMetadata};
pub use key::{GroupKey, Key, MemberKey, OffsetKey, RegularExpressionKey};
pub use offset_commit::OffsetCommitValue;

use crate::{EncodeError, Versioned};

/// What a record says of what its key names.
pub trait Value<'a>: Versioned<'a> {
    /// The version at which Kafka 4.4 writes this value.
    fn version_written(&self) -> i16 {
        0
    }

    /// The value of a record to be written.
    ///
    /// # Errors
    /// A text or a list that is too long for its format.
    fn to_record(&self) -> Result<Vec<u8>, EncodeError> {
        self.to_bytes(self.version_written())
    }
}
