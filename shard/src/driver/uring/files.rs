//! Reads, writes and syncs of files, and what goes to the janitor.
//!
//! Owner: one shard's driver. Reads and writes that the kernel cuts short are continued here, so the shard sees all or an error.
//! Direct files transfer whole blocks: a transfer that ended inside a block is repeated from that block's start.

use std::io;
use std::ops::Range;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags};

use super::flight::{Flight, Gather, Spare, State};
use super::ring::Cqe;
use super::{Step, Uring};
use crate::buffer::Buf;
use crate::driver::janitor::{FileToken, Task};
use crate::driver::{Completion, FsOp, OpId, Outcome, WriteSync};

/// The kernel moves at most this many bytes at once (`MAX_RW_COUNT`), rounded down to a multiple of any block size.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// What the driver knows of an open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    /// The janitor's name for it.
    pub token: FileToken,
    pub alignment: usize,
    pub direct: bool,
}

/// By direct descriptor.
#[derive(Default)]
pub(super) struct OpenFiles(Vec<Option<OpenFile>>);

impl OpenFiles {
    pub fn insert(&mut self, index: u32, file: OpenFile) {
        let index = index as usize;
        if index >= self.0.len() {
            self.0.resize((index + 1).next_power_of_two(), None);
        }
        self.0[index] = Some(file);
    }

    pub fn get(&self, index: u32) -> Option<OpenFile> {
        *self.0.get(index as usize)?
    }

    pub fn remove(&mut self, index: u32) -> Option<OpenFile> {
        self.0.get_mut(index as usize)?.take()
    }

    /// What a transfer that ended early must be a multiple of.
    fn granularity(&self, index: u32) -> usize {
        self.get(index).filter(|file| file.direct).map_or(1, |file| file.alignment)
    }
}

pub(super) fn read_entry(file: u32, offset: u64, buf: &mut Buf, range: Range<usize>) -> Entry {
    let len = range.len().min(TRANSFER_BYTES_MAX) as u32;
    let offset = offset + range.start as u64;
    let place = buf.as_mut_ptr().wrapping_add(range.start);
    match buf.fixed_index() {
        Some(index) => opcode::ReadFixed::new(Fixed(file), place, len, index).offset(offset).build(),
        None => opcode::Read::new(Fixed(file), place, len).offset(offset).build(),
    }
}

pub(super) fn write_entry(file: u32, offset: u64, data: &mut Gather, sync: WriteSync, spare: &mut Spare) -> Entry {
    let flags = if sync == WriteSync::Data { libc::RWF_DSYNC } else { 0 };
    let offset = offset + data.done_bytes();
    if let Some((slice, rest)) = data.single() {
        let len = rest.len().min(TRANSFER_BYTES_MAX) as u32;
        return match slice.fixed_index() {
            Some(index) => {
                opcode::WriteFixed::new(Fixed(file), rest.as_ptr(), len, index).offset(offset).rw_flags(flags).build()
            }
            None => opcode::Write::new(Fixed(file), rest.as_ptr(), len).offset(offset).rw_flags(flags).build(),
        };
    }
    let scratch = data.list(spare);
    let (pieces, count) = (scratch.pieces.as_ptr(), scratch.pieces.len() as u32);
    opcode::Writev::new(Fixed(file), pieces, count).offset(offset).rw_flags(flags).build()
}

pub(super) fn datasync_entry(file: u32) -> Entry {
    opcode::Fsync::new(Fixed(file)).flags(FsyncFlags::DATASYNC).build()
}

impl Uring {
    pub(super) fn file_step(&mut self, state: State, cqe: Cqe) -> Step {
        if cqe.is_error(libc::EINTR) || cqe.is_error(libc::EAGAIN) {
            return Step::Again(state);
        }
        match (state, cqe.outcome()) {
            (State::Read { file, offset, buf, len, filled }, Ok(count)) => {
                self.read_step(file, offset, buf, len, filled + count, count)
            }
            (State::Write { file, offset, data, sync }, Ok(count)) => self.write_step(file, offset, data, sync, count),
            (state, result) => {
                self.end_of_state(state);
                Step::Finish(result.map(|_| Outcome::Done))
            }
        }
    }

    fn read_step(&mut self, file: u32, offset: u64, mut buf: Buf, len: usize, filled: usize, count: usize) -> Step {
        // A direct read ends inside a block at the end of the file only, and could not go on from there.
        let at_end = count == 0 || !filled.is_multiple_of(self.files.granularity(file));
        if filled < len && !at_end {
            self.ring.stats.continuations += 1;
            return Step::Again(State::Read { file, offset, buf, len, filled });
        }
        buf.set_len(filled);
        Step::Finish(Ok(Outcome::Read { buf, len: filled }))
    }

    fn write_step(&mut self, file: u32, offset: u64, mut data: Gather, sync: WriteSync, count: usize) -> Step {
        data.advance(count);
        let mut result = Ok(Outcome::Done);
        if !data.is_done() {
            // The block that the write ended in is written again, from its start.
            let repeated = (data.done_bytes() % self.files.granularity(file) as u64) as usize;
            if repeated < count {
                data.retreat(repeated);
                self.ring.stats.continuations += 1;
                return Step::Again(State::Write { file, offset, data, sync });
            }
            result = Err(io::ErrorKind::WriteZero.into());
        }
        self.end_of_state(State::Write { file, offset, data, sync });
        Step::Finish(result)
    }

    /// Sends what blocks a thread to the janitor.
    pub(super) fn submit_fs(&mut self, id: OpId, work: FsOp) {
        let task = match work {
            FsOp::SetLen { file, len } => self.files.get(file.0).map(|open| Task::SetLen { token: open.token, len }),
            FsOp::Allocate { file, offset, len } => {
                self.files.get(file.0).map(|open| Task::Allocate { token: open.token, offset, len })
            }
            other => Some(Task::Path(other)),
        };
        match task {
            Some(task) => {
                self.flights.insert(Flight { id, cancelled: false, state: State::Fs });
                self.tell_janitor(Some(id), task);
            }
            None => self.ready.push(Completion { id, result: Err(io::Error::from_raw_os_error(libc::EBADF)) }),
        }
    }
}
