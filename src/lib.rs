//! The broker: what clients speak to, and what holds the shards of one node together.
//!
//! Every shard runs the same code over its own connections, partitions and store; see `docs/ARCHITECTURE.md`.

pub mod answers;
pub mod api;
pub mod boot;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod connections;
pub mod coordinator;
pub mod log_replay;
pub mod log_throttle;
pub mod mesh_loop;
pub mod message;
pub mod node;
pub mod observe;
pub mod partition;
pub mod record_work;
pub mod reference;
pub mod router;
pub mod work;
