//! What clients may ask, by protocol.

pub mod kafka;
