//! The submission and completion rings, and the only place that enters the kernel with them.
//!
//! Owner: the driver of one shard; the ring is created, used and dropped on that shard's thread (`SINGLE_ISSUER`). Submissions
//! gather in the queue until [`Ring::flush`] or [`Ring::wait`], so a turn of the executor costs one system call, or none.
//!
//! Invariants: what a submission points to stays valid until its terminal completion (the caller of [`Ring::push`] vouches
//! for it); `in_kernel` counts the submissions whose terminal completion is outstanding; no completion is ever lost (the
//! kernel keeps what does not fit, `FEAT_NODROP`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use base::ShardId;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::token::{self, Note};

/// How often the driver went to the kernel, and with what: benches judge by these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UringStats {
    /// `io_uring_enter` calls.
    pub enters: u64,
    /// Enters that were allowed to block.
    pub waits: u64,
    /// Submissions handed to the kernel.
    pub submissions: u64,
    /// Completions taken from the kernel.
    pub completions: u64,
    /// `sched_yield` calls made while a sync was in flight.
    pub yields: u64,
    /// Other system calls on this thread: sockets made, descriptors closed, buffers registered.
    pub other_calls: u64,
    /// Receives that found no buffer and waited for memory to return.
    pub starved_receives: u64,
    /// Reads, writes and sends that the kernel cut short and the driver continued.
    pub continuations: u64,
    /// Times accepting paused because descriptors ran out.
    pub accept_pauses: u64,
}

/// One completion as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cqe {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

impl Cqe {
    /// The result as the kernel means it: a count, or an error number.
    pub fn outcome(&self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(self.result.wrapping_neg()))
    }

    pub fn is_error(&self, errno: i32) -> bool {
        self.result == -errno
    }

    /// More completions of the same submission will follow.
    pub fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The provided buffer that the kernel took for this completion.
    pub fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

pub(super) struct Ring {
    inner: IoUring,
    /// Taken from the completion ring while a full submission queue had to be emptied; reaped first.
    early: Vec<Cqe>,
    failed_wakes: Vec<ShardId>,
    in_kernel: usize,
    pub stats: UringStats,
}

impl Ring {
    /// A ring for the calling thread, and no other.
    pub fn new(submission_entries: u32, completion_entries: u32) -> io::Result<Self> {
        let inner = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            // DEFER_TASKRUN implies cooperative task work; the flag tells without a system call whether any is due.
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(completion_entries)
            .dontfork()
            .build(submission_entries)?;
        Ok(Self { inner, early: Vec::new(), failed_wakes: Vec::new(), in_kernel: 0, stats: UringStats::default() })
    }

    pub fn submitter(&self) -> io_uring::Submitter<'_> {
        self.inner.submitter()
    }

    /// Submissions whose terminal completion is outstanding, the quiet ones (closes, cancels, wakes) left out.
    pub fn in_kernel(&self) -> usize {
        self.in_kernel
    }

    /// Queues a submission that ends with a terminal completion under its user data.
    ///
    /// # Safety
    ///
    /// All memory that `entry` points to must stay allocated and in place until that completion has been reaped, and
    /// memory the kernel writes to must not be read or written by anyone else until then.
    pub unsafe fn push(&mut self, entry: Entry) {
        self.in_kernel += 1;
        // SAFETY: passed on from the caller.
        unsafe { self.push_raw(&entry) }
    }

    /// Queues a submission that points to no memory and whose success nobody waits for.
    fn push_quiet(&mut self, entry: Entry, user_data: u64) {
        let entry = entry.flags(Flags::SKIP_SUCCESS).user_data(user_data);
        // SAFETY: only the safe methods below call this, with operations that carry numbers and no pointers.
        unsafe { self.push_raw(&entry) }
    }

    /// # Safety
    ///
    /// As [`Ring::push`].
    unsafe fn push_raw(&mut self, entry: &Entry) {
        loop {
            // SAFETY: passed on from the caller.
            if unsafe { self.inner.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue is full: hand it over early. The kernel refuses (EBUSY) while completions overflow; make room for them.
            self.enter(None);
            self.take_into_early();
        }
    }

    /// Asks the kernel to end the submission with this user data early.
    pub fn cancel(&mut self, user_data: u64) {
        self.push_quiet(opcode::AsyncCancel2::new(CancelBuilder::user_data(user_data)).build(), token::IGNORED);
    }

    /// Asks the kernel to end everything that is in flight.
    pub fn cancel_all(&mut self) {
        self.push_quiet(opcode::AsyncCancel2::new(CancelBuilder::any()).build(), token::IGNORED);
    }

    /// Closes a direct descriptor; nobody waits for it.
    pub fn close_quietly(&mut self, index: u32) {
        self.push_quiet(opcode::Close::new(Fixed(index)).build(), token::IGNORED);
    }

    /// Posts a completion with [`token::WAKE`] to a peer's ring. Should that fail, [`Ring::take_failed_wakes`] tells.
    pub fn wake(&mut self, peer: ShardId, ring: RawFd) {
        self.push_quiet(opcode::MsgRingData::new(Fd(ring), 0, token::WAKE, None).build(), token::of_wake(peer));
    }

    /// Peers that a message did not reach (the kernel had no memory for it): they must be woken in another way.
    pub fn take_failed_wakes(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.failed_wakes)
    }

    /// A submission that copies the direct descriptor `index` into a peer's table, at a place the kernel picks and reports.
    pub fn send_descriptor_entry(index: u32, peer: RawFd) -> Entry {
        /// `IORING_MSG_RING_CQE_SKIP`: whoever gets the descriptor learns of it by other ways.
        const NO_COMPLETION_THERE: u32 = 1;
        opcode::MsgRingSendFd::new(Fd(peer), Fixed(index), DestinationSlot::auto_target(), token::WAKE)
            .opcode_flags(NO_COMPLETION_THERE)
            .build()
    }

    /// Hands over what is queued, if anything is.
    pub fn flush(&mut self) {
        if !self.inner.submission().is_empty() {
            self.enter(None);
        }
    }

    /// Has the kernel post what is due, if it says that there is something; with `now`, hands over what is queued as well.
    pub fn collect(&mut self, now: bool) {
        let queue = self.inner.submission();
        let due = queue.taskrun() || queue.cq_overflow();
        let queued = !queue.is_empty();
        drop(queue);
        if due || (now && queued) {
            self.enter(None);
        }
    }

    /// Hands over what is queued and waits for a completion, at most for `timeout`. True if the wait may have slept.
    pub fn wait(&mut self, timeout: Option<Duration>) -> bool {
        if !self.early.is_empty() || !self.inner.completion().is_empty() || timeout == Some(Duration::ZERO) {
            self.flush();
            return false;
        }
        self.stats.waits += 1;
        self.enter(Some(timeout));
        true
    }

    /// One `io_uring_enter`; with `wait`, until a completion is there or the time, if any, has passed.
    fn enter(&mut self, wait: Option<Option<Duration>>) {
        let queued = self.inner.submission().len();
        self.stats.enters += 1;
        let result = match wait {
            None => self.inner.submit(),
            Some(None) => self.inner.submit_and_wait(1),
            Some(Some(timeout)) => {
                let time = Timespec::from(timeout);
                self.inner.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        self.stats.submissions += (queued - self.inner.submission().len()) as u64;
        if let Err(error) = result {
            match error.raw_os_error() {
                // Interrupted, timed out, or completions must be reaped before more is taken: the caller comes back by itself.
                Some(libc::EINTR | libc::ETIME | libc::EBUSY) => {}
                // The kernel is short of memory for requests; let others run and give it back.
                Some(libc::EAGAIN) => rustix::thread::sched_yield(),
                _ => panic!("io_uring_enter failed in a way that leaves this shard without its ring: {error}"),
            }
        }
    }

    fn take_into_early(&mut self) {
        let taken = self.inner.completion().map(|cqe| Cqe {
            user_data: cqe.user_data(),
            result: cqe.result(),
            flags: cqe.flags(),
        });
        self.early.extend(taken);
    }

    /// Moves all completions that have arrived into `cqes`; those of quiet submissions and wakes end here.
    pub fn take_completions(&mut self, cqes: &mut Vec<Cqe>) {
        self.take_into_early();
        self.stats.completions += self.early.len() as u64;
        for cqe in self.early.drain(..) {
            match token::note(cqe.user_data) {
                Some(Note::Quiet) => continue,
                Some(Note::WakeFailed(peer)) => {
                    self.failed_wakes.push(peer);
                    continue;
                }
                None => {}
            }
            if !cqe.more() {
                self.in_kernel -= 1;
            }
            cqes.push(cqe);
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `inner`, which the returned borrow keeps from being dropped.
        unsafe { BorrowedFd::borrow_raw(self.inner.as_raw_fd()) }
    }
}
