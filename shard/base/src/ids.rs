//! Newtypes for the numbers that must not be mixed up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$repr> for $name {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }
    };
}

id!(
    /// A broker's node id, unique in its cluster, never negative for a live broker.
    BrokerId(i32)
);
id!(
    /// A shard of this broker, counted from 0. Never leaves the broker.
    ShardId(u16)
);
id!(
    /// A partition's number within its topic, counted from 0.
    PartitionIndex(i32)
);
id!(
    /// The position of a record in a partition, counted from 0.
    Offset(i64)
);
id!(
    /// The term of a partition's leader; −1 is "unknown" on the wire ([`NO_EPOCH`]).
    LeaderEpoch(i32)
);
id!(
    /// The identity of an idempotent producer (KIP-98); −1 on the wire means "none".
    ProducerId(i64)
);
id!(
    /// The incarnation of a producer id; a lower one is fenced (KIP-98).
    ProducerEpoch(i16)
);
id!(
    /// Counts the moves of a replica between the shards of one broker; the highest wins.
    PlacementEpoch(u64)
);

/// "No leader epoch" as Kafka writes it.
pub const NO_EPOCH: LeaderEpoch = LeaderEpoch(-1);

impl Offset {
    /// The offset `count` records further on.
    #[must_use]
    pub fn plus(self, count: i64) -> Self {
        Self(self.0 + count)
    }
}
