//! The way to a shard from outside its ring: lanes that the janitor, the helper and peers put things in, and the small ring
//! that passes descriptors.
//!
//! Owner: each thread has its own [`Returns`]; the lanes are queues without a lock, bounded by the operations in flight that they
//! answer. Life cycle: made before the threads start; a shard that has ended no longer reads its lane, and what is sent there is
//! dropped.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use base::ShardId;
use io_uring::IoUring;
use io_uring::squeue::Entry;

use super::peers::UringPeers;
use super::registered::TouchSlab;
use super::ring::Ring;
use crate::driver::OpId;
use crate::driver::janitor::Answer;

/// What comes back to a shard's driver outside of its ring.
#[derive(Debug)]
pub(crate) enum Return {
    /// The janitor's word on a request.
    Answer { id: OpId, result: io::Result<Answer> },
    /// The helper has run the operation's work.
    Worked { id: OpId },
    /// The helper has faulted in a slab.
    Touched(TouchSlab),
    /// A peer passed a socket here and then lost interest: close it.
    Stray { index: u32 },
}

/// The sending end of every shard's lane.
#[derive(Clone)]
pub(crate) struct Returns {
    peers: Arc<UringPeers>,
    lanes: Vec<Sender<Return>>,
}

impl Returns {
    pub fn new(peers: Arc<UringPeers>, lanes: Vec<Sender<Return>>) -> Self {
        Self { peers, lanes }
    }

    /// Hands `what` to the shard and ends its sleep.
    pub fn send(&self, shard: ShardId, what: Return) {
        // A shard that has ended has nobody to tell.
        if self.lanes[usize::from(shard.0)].send(what).is_ok() && self.peers.must_be_woken(shard) {
            self.peers.ring_doorbell(shard);
        }
    }
}

/// A ring of a few entries that only passes descriptors to other rings; used with plain blocking calls, by one thread.
pub(crate) struct Messenger {
    peers: Arc<UringPeers>,
    ring: IoUring,
}

impl Messenger {
    pub fn new(peers: Arc<UringPeers>) -> io::Result<Self> {
        let ring = IoUring::builder().setup_submit_all().dontfork().build(4)?;
        ring.submitter().register_files_sparse(1)?;
        Ok(Self { peers, ring })
    }

    /// Copies an open descriptor into the shard's table; the index over there.
    pub fn install(&mut self, shard: ShardId, descriptor: BorrowedFd<'_>) -> io::Result<u32> {
        let target = self.peers.ring(shard).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        self.ring.submitter().register_files_update(0, &[descriptor.as_raw_fd()])?;
        let sent = self.run(&Ring::send_descriptor_entry(0, target));
        // The table here must not keep the file open beside the shard's.
        self.ring.submitter().register_files_update(0, &[-1])?;
        sent
    }

    /// Runs one submission to its end.
    fn run(&mut self, entry: &Entry) -> io::Result<u32> {
        // SAFETY: the entries made here carry numbers and descriptors, no pointers.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if let Some(cqe) = self.ring.completion().next() {
                return u32::try_from(cqe.result()).map_err(|_| io::Error::from_raw_os_error(-cqe.result()));
            }
        }
    }
}
