//! What must be true of consumer groups, as their members see them: who has a partition, and how far it was read.
//!
//! Owner: the test, outside the simulated processes, so it survives them. All that the judge goes by is when a request was sent and
//! when its answer was taken, as moments on one line ([`Moment`]): what happened in between may have happened at any time there, and
//! no more is held against a broker than what contradicts every such time.

pub mod classic;
pub mod commits;
pub mod consumer;

/// A partition: the topic by its number, and the index.
pub type Place = (usize, i32);

/// A point on the line of everything that happens to the clients; no two events have the same.
pub type Moment = u64;
