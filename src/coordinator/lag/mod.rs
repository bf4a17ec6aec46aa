//! How far groups are behind, how long retention lets them be, and who holds partitions without getting on (ADR 0013).
//!
//! Owner: the shard of the group's coordinator. `pass.rs` is a task of the background class: every so often it looks at each partition that a
//! group has committed an offset of, some at a time, and asks the partitions' owners. All that follows from an answer is pure: `progress.rs` is
//! one partition of one group, look after look; `table.rs` finds what there is to look at in a [`super::GroupTable`], and keeps what was seen
//! beside the offset, with which it goes.
//!
//! Invariants
//! - What is seen decides nothing: no answer of a coordinator depends on it, and the log has none of it.
//! - A pass looks at a bounded number of partitions at a time, lets others have their turn in between, and holds no borrow meanwhile; passes
//!   do not overlap.
//! - Records are read for their timestamps only where the offset has moved since the last look, one batch at a time at each owner.
//! - A warning is given once: again only after what it was about was over, by a margin where it could flicker.

mod pass;
mod progress;
mod summary;
mod table;
#[cfg(test)]
mod tests;

pub use pass::watch;
pub use progress::{Lag, LagLimits, Look, PROGRESS_BYTES, Progress, REASSIGNMENTS_MAX, Warning};
pub use summary::{GroupLag, PartitionLag};
pub use table::ToLookAt;
