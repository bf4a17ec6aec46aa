//! Compaction: of each key the last record stays. What is decided; all of it pure.
//!
//! Owner: the store, whose background task carries it out ([`crate::store`]). See docs/adr/0011-compaction.md.
//!
//! | to decide | |
//! | --- | --- |
//! | which log, and how far | [`compaction_plan`] |
//! | which keys have a later record | [`KeyMap`], filled by [`note_batch`] |
//! | what becomes of a batch | [`Cleaning::fate`] |
//! | which segments become one | [`group_segments`] |
//! | how much of its time it works | [`Pace`] |
//!
//! Invariants: nothing at or above [`Cleaning::upto`] goes; of the records of a key below, the last one stays, but for a tombstone whose
//! delete horizon has passed; a batch that stays keeps its offsets, and in a batch that stays a record does.

mod filter;
mod group;
mod keys;
mod pace;
mod plan;

pub use filter::{Cleaning, Fate, Uncleanable, note_batch};
pub use group::{GroupLimits, group_segments};
pub use keys::KeyMap;
pub use pace::{Pace, Wait};
pub use plan::{CompactionPlan, LogExtent, compaction_plan};

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod oracle_tests;
