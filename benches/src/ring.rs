//! A bare io_uring: no executor, no slab, no safety net. What the raw references and the floor are made of.
//!
//! Owner: the one thread that made it. Every operation names memory by address, so whoever pushes one keeps that memory in
//! place until its completion was taken; each program here says how it does.

use std::io;

use io_uring::{IoUring, cqueue, squeue};

/// A ring with the settings of the broker's own driver.
pub struct Ring {
    ring: IoUring,
    /// Times the kernel was entered.
    pub enters: u64,
}

impl Ring {
    /// # Errors
    /// When the kernel refuses io_uring, or is older than 6.1.
    pub fn new(entries: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(entries * 4)
            .build(entries)?;
        Ok(Self { ring, enters: 0 })
    }

    /// Pins memory for the operations that name it by index.
    ///
    /// # Errors
    /// When there is no right to lock that much memory.
    ///
    /// # Safety
    /// The memory stays where it is for as long as the ring lives.
    pub unsafe fn register_buffers(&mut self, buffers: &[libc::iovec]) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.ring.submitter().register_buffers(buffers) }
    }

    /// Whether the kernel knows an operation.
    #[must_use]
    pub fn supports(&self, code: u8) -> bool {
        let mut probe = io_uring::Probe::new();
        self.ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(code)
    }

    /// Queues an operation; enters the kernel only when the queue is full.
    ///
    /// # Errors
    /// When the kernel does not take what is queued.
    ///
    /// # Safety
    /// The memory and descriptors that `entry` names stay valid until its completion was taken.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller's promise.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enters += 1;
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Submits what is queued and waits until `count` completions are there.
    ///
    /// # Errors
    /// As the kernel has them; an interruption is none.
    pub fn submit_and_wait(&mut self, count: usize) -> io::Result<()> {
        self.enters += 1;
        match self.ring.submit_and_wait(count) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            result => result.map(drop),
        }
    }

    /// The next completion that is already there.
    pub fn pop(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Takes exactly `count` completions, waiting for them, and gives each to `done`.
    ///
    /// # Errors
    /// As the kernel has them, and the first error of `done`.
    pub fn complete(&mut self, count: usize, mut done: impl FnMut(cqueue::Entry) -> io::Result<()>) -> io::Result<()> {
        let mut taken = 0;
        while taken < count {
            match self.pop() {
                Some(completion) => {
                    taken += 1;
                    done(completion)?;
                }
                None => self.submit_and_wait(count - taken)?,
            }
        }
        Ok(())
    }
}

/// The result of a completion as a count of bytes, or its error.
///
/// # Errors
/// What the kernel reported.
pub fn result(completion: &cqueue::Entry) -> io::Result<usize> {
    usize::try_from(completion.result()).map_err(|_| io::Error::from_raw_os_error(-completion.result()))
}
