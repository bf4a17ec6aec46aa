//! Real processes: a broker started as a user starts it, on loopback, in a fresh directory, ended by its process id.
//!
//! Tests run their clients on a shard with the production driver, in the test's own process ([`runner`]); what they sent, what was
//! acknowledged and what was read goes into a [`ledger`], which judges every log that is read back.

pub mod broker;
pub mod churn;
pub mod confined;
pub mod ledger;
pub mod load;
pub mod namespace;
pub mod payload;
pub mod rot;
pub mod runner;
pub mod small_disk;
