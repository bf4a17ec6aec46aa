//! A null broker: it acknowledges at once and keeps what it was sent in memory for as long as there is room.
//!
//! For the generator's own ceiling and noise floor; and, where it is told to, it misbehaves in exactly known ways, so that the
//! generator can be proven right: late by a schedule ([`Pace`]), wrong by the record ([`Fault`]).
//!
//! Owner: one shard, on a thread of its own ([`start`]). Pure cores decide: `pace` when something happens, `log` (with `faults`, `rebuild`,
//! `producers`) what a partition holds, `store` which topics there are and what has to go. `service` and `api` are the shell.
//!
//! Invariants
//! - No work is done by the record but on batches that a fault falls into. A batch is copied once, so that its frame is the next one's, and
//!   its CRC is left to whoever reads it.
//! - What is acknowledged has the offset that it was acknowledged with, whatever faults came before it.
//! - A record can be read from its acknowledgement on, or from [`Pace::deliver_delay`] after it; never earlier.
//! - What is kept is bounded over all partitions: the oldest batches go first.

mod api;
mod broker;
mod fault;
mod log;
#[cfg(test)]
mod log_tests;
mod pace;
mod producers;
mod rebuild;
mod request;
mod server;
mod service;
mod store;

pub use broker::SinkOptions;
pub use fault::{Fault, FaultKind};
pub use pace::{Delays, Pace, Stall};
pub use server::{Sink, start};
