//! The keys of the records: two bytes that say the kind of the record, and the fields that say whom it is about.
//!
//! Kafka once called the kind the key's version; it is a number of its own for each kind of record.

use base::PartitionIndex;

use crate::{DecodeError, Decoder, EncodeError, Encoder, Wire};

/// One line per kind of record: what its value says, name, fields, number.
macro_rules! keys {
    ($($(#[doc = $doc:literal])* $name:ident($fields:ident) = $kind:literal;)*) => {
        /// What a record is about.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Key<'a> {
            $($(#[doc = $doc])* $name($fields<'a>),)*
            /// A kind of record that this crate has no definition for, as share groups, Streams groups and later versions
            /// of Kafka write them: whoever reads a log passes over it, as Kafka does.
            Unknown {
                kind: i16,
                fields: &'a [u8],
            },
        }

        impl<'a> Key<'a> {
            /// The number of the kind.
            #[must_use]
            pub const fn kind(&self) -> i16 {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Unknown { kind, .. } => *kind,
                }
            }

            /// Reads a key, which must be all there is.
            ///
            /// # Errors
            /// A known kind with fields that are not its own, or less than a kind. Another kind is no error.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
                let mut decoder = Decoder::new(bytes);
                let kind = decoder.take_i16().map_err(|error| error.in_field("Key.kind"))?;
                let key = match kind {
                    $($kind => Self::$name($fields::take(&mut decoder)?),)*
                    _ => {
                        let fields = decoder.rest();
                        decoder.skip_all();
                        Self::Unknown { kind, fields }
                    }
                };
                decoder.finish()?;
                Ok(key)
            }

            /// The key of a record to be written.
            ///
            /// # Errors
            /// A text above 32,767 bytes.
            pub fn to_bytes(&self) -> Result<Vec<u8>, EncodeError> {
                let mut encoder = Encoder::new();
                encoder.put_i16(self.kind());
                match self {
                    $(Self::$name(fields) => fields.put(&mut encoder)?,)*
                    Self::Unknown { fields, .. } => encoder.put_slice(fields),
                }
                Ok(encoder.into_bytes())
            }
        }
    };
}

keys! {
    /// As [`Key::OffsetCommit`], from before Kafka 0.8.3; its value has version 0.
    LegacyOffsetCommit(OffsetKey) = 0;
    /// How far a group of either kind has read a partition: [`super::OffsetCommitValue`].
    OffsetCommit(OffsetKey) = 1;
    /// A classic group, its generation and its members: [`super::GroupMetadataValue`].
    GroupMetadata(GroupKey) = 2;
    /// A consumer group and its epoch: [`super::ConsumerGroupMetadataValue`].
    ConsumerGroupMetadata(GroupKey) = 3;
    /// The topics that a consumer group reads, as Kafka 4.0 kept them: [`super::ConsumerGroupPartitionMetadataValue`].
    ConsumerGroupPartitionMetadata(GroupKey) = 4;
    /// A member of a consumer group: [`super::ConsumerGroupMemberMetadataValue`].
    ConsumerGroupMemberMetadata(MemberKey) = 5;
    /// The epoch of the target assignment: [`super::ConsumerGroupTargetAssignmentMetadataValue`].
    ConsumerGroupTargetAssignmentMetadata(GroupKey) = 6;
    /// What a member is to read in the end: [`super::ConsumerGroupTargetAssignmentMemberValue`].
    ConsumerGroupTargetAssignmentMember(MemberKey) = 7;
    /// What a member may read as of now: [`super::ConsumerGroupCurrentMemberAssignmentValue`].
    ConsumerGroupCurrentMemberAssignment(MemberKey) = 8;
    /// The topics that a regular expression stands for: [`super::ConsumerGroupRegularExpressionValue`].
    ConsumerGroupRegularExpression(RegularExpressionKey) = 16;
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Wire)]
pub struct OffsetKey<'a> {
    pub group_id: &'a str,
    pub topic: &'a str,
    pub partition: PartitionIndex,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Wire)]
pub struct GroupKey<'a> {
    pub group_id: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Wire)]
pub struct MemberKey<'a> {
    pub group_id: &'a str,
    pub member_id: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Wire)]
pub struct RegularExpressionKey<'a> {
    pub group_id: &'a str,
    pub regular_expression: &'a str,
}
