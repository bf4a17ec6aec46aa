//! The load generator: an open-loop benchmark for any broker that speaks the Kafka protocol, which verifies what it measures.
//!
//! Open loop: each record is due at a time that the rate alone decides, and its latencies count from then. A broker, or a generator,
//! that falls behind so lengthens the latencies of all that waited, instead of hiding them (coordinated omission).
//!
//! | room | what it holds |
//! | --- | --- |
//! | `workload` | what is to be done: the keys of a workload file, which are options too |
//! | `payload`, `filler`, `keys` | what stands in a record |
//! | `run` | the run itself: setting up, threads, producers, consumers |
//! | `measure`, `membership`, `verify` | what is counted, and what is held against what was acknowledged |
//! | `groups` | what coordinators of consumer groups take, without records |
//! | `context` | where it takes place: the machine, its disk, the broker |
//! | `report` | what came of it: figures, and how they are shown |
//! | `target`, `search`, `compare` | figures held to bounds, the highest rate that holds them, brokers beside each other |
//! | `commands` | the verbs |
//! | `sink` | a null broker |

pub mod commands;
pub mod compare;
pub mod context;
pub mod filler;
pub mod groups;
pub mod keys;
pub mod measure;
pub mod membership;
pub mod payload;
pub mod report;
pub mod run;
pub mod search;
pub mod sink;
pub mod target;
pub mod units;
pub mod verify;
pub mod workload;
