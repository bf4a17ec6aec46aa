//! A partition on the shard that owns it: its log, what clients may read of it, and who waits for more.
//!
//! Owner: the shard that `placement` gave the replica to; nothing here is `Send`. Life cycle: opened by the controller's word
//! ([`open`]), gone by it ([`remove`]).
//!
//! Invariants
//! - The high watermark of a single replica is its log's durable end: a client never reads what a crash could take back.
//! - An append has its place in the partition's order when [`produce`] returns, before anything is awaited.

mod admin;
mod failures;
mod fetch;
mod interest;
mod lag;
mod offsets;
mod produce;
mod table;

pub use admin::{delete_records, log_sizes, producers};
pub use fetch::{FetchCancels, Reader, Readers, WaitingFetch, fetch};
pub use lag::measure_lag;
pub use offsets::{epoch_ends, list_offsets};
pub use produce::produce;
pub use table::{Partition, PartitionTable, open, remove};
