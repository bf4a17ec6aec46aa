//! What was delivered, held against what was acknowledged.

mod judge;
mod ledger;
mod owners;
mod ranges;

pub use judge::{Arrival, FINDINGS_MAX, Judge, News, Numbering, PartitionName, Rules};
pub use ledger::{Ack, Ledger, Seen, Sighting};
pub use owners::{Owner, Owners};
pub use ranges::Ranges;
