//! Who asks: machines, their shards, and the operations of one shard.

use base::ShardId;
use shard::driver::OpId;

pub const ECANCELED: i32 = 125;

/// A simulated machine; it runs one process at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineId(pub u16);

/// A shard of one run of a machine's process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seat {
    pub machine: MachineId,
    /// Counts the runs: what was asked for in an earlier one is never answered.
    pub run: u32,
    pub shard: ShardId,
}

/// One operation, from its submission to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub seat: Seat,
    pub op: OpId,
}
