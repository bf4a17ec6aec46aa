//! What every fuzz target shares: the bound on memory.

pub mod memory;
