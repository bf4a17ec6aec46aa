//! The broker: what clients speak to, and what holds the shards of one node together.
//!
//! Every shard runs the same code over its own connections, partitions and store; see `docs/ARCHITECTURE.md`.

pub mod config;
