//! What the threads of a process know of each other's shards: rings to send messages to, and the doorbells of those who sleep.
//!
//! Owner: shared by all shard threads, the janitor and the helper; each shard fills in its ring once as it starts, and from then on
//! only the sleep flags change. A ring's descriptor here is a duplicate that lives as long as the process's fleet, so that a
//! message to a shard that has ended can never reach whatever took over its descriptor number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use base::ShardId;
use rustix::event::EventfdFlags;

pub(crate) struct UringPeers(Vec<Peer>);

struct Peer {
    ring: OnceLock<OwnedFd>,
    /// An eventfd that the shard's ring reads: any thread can end the shard's park with it.
    doorbell: OwnedFd,
    /// Set by a shard that is about to sleep in the kernel: what arrives in its lane must ring the bell.
    asleep: AtomicBool,
}

impl UringPeers {
    pub fn new(shards: u16) -> io::Result<Self> {
        let peer = |_| {
            // Blocking, so that the ring waits for the bell instead of failing at once.
            let doorbell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
            Ok(Peer { ring: OnceLock::new(), doorbell, asleep: AtomicBool::new(false) })
        };
        (0..shards).map(peer).collect::<io::Result<_>>().map(Self)
    }

    fn peer(&self, shard: ShardId) -> &Peer {
        &self.0[usize::from(shard.0)]
    }

    /// Makes a shard's ring known to the others. Once a shard.
    pub fn announce(&self, shard: ShardId, ring: BorrowedFd<'_>) -> io::Result<()> {
        let duplicate = ring.try_clone_to_owned()?;
        let first = self.peer(shard).ring.set(duplicate).is_ok();
        assert!(first, "shard {shard} has announced two rings");
        Ok(())
    }

    /// The ring of a shard that has started.
    pub fn ring(&self, shard: ShardId) -> Option<RawFd> {
        self.0.get(usize::from(shard.0))?.ring.get().map(AsRawFd::as_raw_fd)
    }

    pub fn doorbell(&self, shard: ShardId) -> RawFd {
        self.peer(shard).doorbell.as_raw_fd()
    }

    /// Ends the shard's present or next park, from any thread.
    pub fn ring_doorbell(&self, shard: ShardId) {
        // It fails only when the counter is full, and then the bell is ringing.
        let _ = rustix::io::write(&self.peer(shard).doorbell, &1u64.to_ne_bytes());
    }

    /// Announces a sleep. The caller must look at its lane once more after this and before it sleeps: whoever adds something
    /// later sees the flag (both sides stand on a sequentially consistent fence).
    pub fn fall_asleep(&self, shard: ShardId) {
        self.peer(shard).asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn wake_up(&self, shard: ShardId) {
        self.peer(shard).asleep.store(false, Ordering::Relaxed);
    }

    /// To be asked after something was added to a lane: whether the shard sleeps and must be woken. True once per sleep.
    pub fn must_be_woken(&self, shard: ShardId) -> bool {
        fence(Ordering::SeqCst);
        let asleep = &self.peer(shard).asleep;
        asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::Relaxed)
    }
}
