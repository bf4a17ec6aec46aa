//! See docs/ARCHITECTURE.md.

pub mod epochs;
pub mod producer;
pub mod segment;
