//! The wire side of a shard: framed connections whose answers leave in request order.
//!
//! Owner: each shard serves the connections passed to it. Nothing here knows an API: a [`Service`] decodes a frame and answers it.

mod connection;
mod frame;
mod frame_memory;
pub mod http;
mod progress;
mod watch;

pub use connection::{Answer, Connection, Drain, Limits, OnClose, Place, Reply, Service, Started, serve};
pub use frame::{FrameError, FrameReader};
pub use frame_memory::FrameMemory;
pub use progress::{Moving, Progress, Shortage};
pub use watch::{Dismissal, Watch};
