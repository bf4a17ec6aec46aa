//! What stands at the front of every record's value, by which it is known again when it is delivered.

/// Bytes of it: the least that a record has.
pub const HEADER_BYTES: usize = 32;
