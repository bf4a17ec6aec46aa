//! What the measuring programs of this package share: samples and tables, counters of the device and of processes, a bare
//! io_uring, and the Produce load.
//!
//! Owner: none; no program here is part of the broker. Each program under `src/bin/` prints the machine it ran on, one table
//! with medians, and the ratios within that same run. `scripts/bench/` builds and starts them.
//!
//! Rules: alternatives are measured in the same run, interleaved, by the same client; counts (flushes, writes, bytes, system
//! calls) stand beside times; a number that could not be taken is printed as `-`, never guessed.

pub mod aligned;
pub mod broker;
pub mod device;
pub mod fetch;
pub mod files;
pub mod load;
pub mod machine;
pub mod process;
pub mod ring;
pub mod server;
pub mod stats;
pub mod stores;
pub mod syscalls;
pub mod table;
