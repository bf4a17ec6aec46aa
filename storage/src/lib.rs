//! The log: journal, segments, recovery. See docs/ARCHITECTURE.md for its contract and its files.
//!
//! Owner: a `ShardStore` on each shard owns all logs of that shard, one journal and one manifest.

pub mod audit;
pub mod budget;
mod bytes;
pub mod clock;
pub mod compaction;
pub mod config;
pub mod epochs;
pub mod format;
pub mod journal;
pub mod log;
pub mod manifest;
mod orphan;
pub mod placement;
pub mod producer;
pub mod read;
pub mod recovery;
pub mod retention;
pub mod segment;
pub mod space;
pub mod store;
pub mod tail;
mod tasks;

#[cfg(test)]
mod testing;

pub use config::{CompactionConfig, Durability, LogConfig, LogId, RecoverConfig, StoreConfig};
pub use epochs::EpochEnd;
pub use journal::ring::batch_bytes_max;
pub use log::{AppendError, AppendOptions, Appended, Duplicate, Durable, Log, Lost, Status};
pub use producer::{ActiveProducer, ProducerError};
pub use read::{Read, ReadError, ReadLimits};
pub use recovery::{RecoverError, Recovered, RecoveredShard, RecoveryReport, recover};
pub use space::{SpaceClass, SpaceState};
pub use store::{HandedLog, ShardStore, StoreError, StoreMeters, StoreStats};
