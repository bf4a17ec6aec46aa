//! The simulated world: processes of many shards with disks and a network that misbehave, in one thread, decided by a seed.
//!
//! It stands where the kernel stands in production: behind `shard::driver::Host`. Nothing here is a dependency of code that
//! ships, and nothing that ships knows of it.

pub mod batches;
pub mod clock;
pub mod compacted;
pub mod disk;
pub mod faults;
pub mod groups;
mod host;
pub mod io;
pub mod judge;
pub mod ledger;
pub mod net;
pub mod runner;
pub mod seat;
pub mod state;
pub mod trace;
pub mod world;
