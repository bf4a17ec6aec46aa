//! The journal of a shard: what makes an append durable.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`codec`] | the bytes of commits (pure), with `frame`, their measures, and `entries`, what stands in them |
//! | [`scan`] | finds a journal's end, tells torn from rotten (pure) |
//! | [`ring`] | which file is next, what is free, what is promised (pure) |
//! | [`files`] | makes, opens and names the files |

pub mod codec;
mod entries;
pub mod files;
mod frame;
pub mod ring;
pub mod scan;
