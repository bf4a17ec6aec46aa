//! Reading a log: what of it comes from memory and what from disk.

mod plan;

pub use plan::{Misplaced, Read, ReadLimits, Walk};
