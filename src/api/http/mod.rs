//! The HTTP port: one file per route.
//!
//! Owner: each shard serves the connections passed to it; shard 0 serves all of them until the node takes requests, so that a start that
//! takes long can be watched.

mod answer;
mod connections;
mod health;
mod metrics;
mod routes;

pub use connections::{CONNECTIONS_MAX, accept, serve};
