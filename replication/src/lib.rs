//! What the cluster agrees on, decided without I/O: plain data in, plain data out; no clock, no sockets, no files.
//!
//! Today that is [`metadata`]: topics, brokers and settings as records, and the image they add up to.

pub mod metadata;
