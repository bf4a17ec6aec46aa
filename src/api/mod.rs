//! What clients may ask, by protocol.

pub mod http;
pub mod kafka;
