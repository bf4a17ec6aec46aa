//! The wire side of a shard: framed connections whose answers leave in request order.
//!
//! Owner: each shard serves the connections passed to it. Nothing here knows an API: a [`Service`] decodes a frame and answers it.

mod connection;
mod frame;
pub mod http;

pub use connection::{Answer, Connection, Drain, Limits, OnClose, Place, Reply, Service, Started, serve};
pub use frame::{FrameError, FrameMemory, FrameReader};
