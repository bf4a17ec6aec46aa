//! The `tidemill` program.

fn main() {}
