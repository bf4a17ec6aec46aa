//! Consumer groups: who is a member, who reads what, how far each group has read.
//!
//! Owner: the shard that owns the group's partition of `__consumer_offsets`. Everything that decides is pure: `classic/` is one group whose members
//! share the partitions out, `consumer/` one whose coordinator does (KIP-848), by one of the assignors of `assignor/`; `offsets.rs` is what a group
//! has committed, `group.rs` a group of either kind with its offsets, `table.rs` all groups of one partition. They turn a request, or a deadline,
//! into [`Effects`]: records for the partition's log, answers, deadlines. `host.rs` runs a table on its log; `lag/` watches how groups get on.
//!
//! Invariants
//! - An answer leaves once the records of its step are committed, and all those before: nobody acts on what a crash could take back.
//! - Offsets change by replay alone; a step whose append is refused has not happened. Where members had changed with it, the term of the
//!   coordinator ends, and it loads again from its log.
//! - One member of a generation leads, each generation has one assignment, and who speaks of another generation is told so.

pub mod assignor;
mod classic;
mod config;
pub mod consumer;
mod effects;
mod group;
mod host;
pub mod lag;
pub mod message;
mod offsets;
mod records;
mod table;
#[cfg(test)]
mod tests;
pub mod topics;

pub use config::{ConsumerGroupConfig, GroupConfig, Migration};
pub use effects::{Effects, GroupSnapshot, MemberSnapshot, Record, Timer};
pub use host::{Coordinator, Coordinators, OFFSETS_TOPIC, start};
pub use table::{GroupTable, Moment};
