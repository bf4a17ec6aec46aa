//! What the tests of the production driver share: shards on threads of their own, and a directory that goes when the test ends.
#![allow(dead_code, reason = "each test file uses its part")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use shard::threads::{SpawnOptions, spawn_shards};
use shard::{Shard, ShardOptions, Slice};

pub fn options(arena_bytes: usize) -> SpawnOptions {
    SpawnOptions { shard: ShardOptions { arena_bytes, ..ShardOptions::default() }, ..SpawnOptions::default() }
}

/// Runs `main` on one shard with a real ring.
pub fn run<T: Send + 'static, F: Future<Output = T> + 'static>(
    main: impl FnOnce(Shard) -> F + Clone + Send + 'static,
) -> T {
    run_with(&options(64 << 20), main)
}

pub fn run_with<T: Send + 'static, F: Future<Output = T> + 'static>(
    options: &SpawnOptions,
    main: impl FnOnce(Shard) -> F + Clone + Send + 'static,
) -> T {
    let shards = spawn_shards(options, vec![()], move |shard, ()| main(shard)).expect("a ring for the test");
    shards.join().pop().expect("one shard")
}

/// A directory of the test's own, on the disk that the workspace is built on (direct I/O), removed at the end.
pub struct TestDir(PathBuf);

impl TestDir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shard-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `len` bytes that tell where they belong.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = base::Random::new(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// The bytes in arena memory, aligned as direct I/O wants it.
pub async fn aligned(shard: &Shard, bytes: &[u8]) -> Slice {
    let mut buf = shard.arena().alloc_wait(bytes.len()).await;
    buf.extend_from_slice(bytes);
    buf.freeze()
}
