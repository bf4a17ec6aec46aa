//! The runtime of one core: executor, driver, buffers, files, sockets, timers and the mesh.
//!
//! See `docs/ARCHITECTURE.md`, section "shard: the runtime". Nothing here is ambient: a [`Shard`] is passed to whoever needs it,
//! and everything a shard does to the outside goes through its [`driver::Driver`].

mod atomic;
mod buffer;
pub mod driver;
mod executor;
mod fs;
#[cfg(all(test, loom))]
mod loom_tests;
mod mesh;
mod ops;
pub mod pinning;
pub mod probe;
mod shard;
mod socket;
pub mod sync;
pub mod threads;

pub use buffer::{
    AllocWait, AppendBuf, Arena, ArenaUsage, BLOCK_BYTES, Buf, CLASS_BYTES_MAX, ForeignSlice, SLAB_BYTES, Slice,
};
pub use driver::{
    DirEntry, Driver, FileStat, Host, OpenOptions, RECV_BYTES, Space, Uring, UringOptions, UringSeat, UringStats,
    WriteSync,
};
pub use executor::{Account, AccountUse, Class, Detached, Sleep, Task, Unparker, YieldNow};
pub use fs::{File, Fs};
pub use mesh::{Answer, Incoming, LaneDepth, Mesh, MeshBounds, MeshSeat, Reply, mesh};
pub use shard::{Shard, ShardOptions, Turn, Uptime};
pub use socket::{Listener, PassedSocket, Socket};
