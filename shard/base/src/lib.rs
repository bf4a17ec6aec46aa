//! Ids, time, units and seeded randomness: the vocabulary every other crate shares.
//!
//! Depends on nothing, does no I/O, reads no clock: instants are values handed in by a driver.

mod id_map;
mod ids;
mod meters;
mod random;
mod time;
mod uuid;

pub use id_map::{IdHasher, IdMap};
pub use ids::{
    BrokerId, LeaderEpoch, NO_EPOCH, Offset, PartitionIndex, PlacementEpoch, ProducerEpoch, ProducerId, ShardId,
};
pub use meters::{Counter, Histogram, Scale};
pub use random::Random;
pub use time::{Instant, WallTime};
pub use uuid::{ParseUuidError, Uuid};

pub const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;
pub const GIB: usize = 1 << 30;
