//! See docs/ARCHITECTURE.md.

pub mod epochs;
pub mod producer;
pub mod retention;
pub mod segment;
pub mod space;

#[cfg(test)]
mod testing;
