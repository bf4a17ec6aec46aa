//! The forms without a store: a bare ring on each shard's thread, files made ready before.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use benches::aligned::{AlignedBuf, BLOCK_BYTES, round_up};
use benches::files::prezeroed;
use benches::process;
use benches::ring::{self, Ring};
use benches::stats::Samples;
use io_uring::{opcode, types};

use super::{Cell, Pace};

/// Each partition's file is written round and round.
const FILE_BYTES: usize = 1 << 20;
const JOURNAL_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    OneWrite,
    Dsync,
    Barrier,
}

/// What a shard writes to.
pub struct Files {
    journal: File,
    partitions: Vec<File>,
}

impl Files {
    pub fn make(dir: &Path, shard: usize, partitions: usize) -> io::Result<Self> {
        let dir = dir.join(format!("bare-{shard}"));
        std::fs::create_dir_all(&dir)?;
        let journal = prezeroed(&dir.join("journal"), JOURNAL_BYTES as u64)?;
        let partition = |n| prezeroed(&dir.join(format!("partition-{n}")), FILE_BYTES as u64);
        Ok(Self { journal, partitions: (0..partitions).map(partition).collect::<io::Result<_>>()? })
    }
}

/// Runs the rounds of a cell on all shards at once.
pub fn run(form: Form, files: &[Files], cell: Cell, pace: Pace) -> io::Result<Samples> {
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(files.len());
        for (shard, of_shard) in files.iter().enumerate() {
            let partitions = cell.on_shard(shard, files.len());
            if partitions > 0 {
                handles.push(scope.spawn(move || {
                    process::pin_to(shard)?;
                    rounds(form, of_shard, partitions, cell.bytes, pace)
                }));
            }
        }
        let mut samples = Samples::default();
        for handle in handles {
            samples.merge(&handle.join().expect("a shard's thread does not panic")?);
        }
        Ok(samples)
    })
}

fn rounds(form: Form, files: &Files, partitions: usize, bytes: usize, pace: Pace) -> io::Result<Samples> {
    let longest = if form == Form::OneWrite { partitions * bytes } else { bytes + BLOCK_BYTES };
    let data = AlignedBuf::zeroed(round_up(longest));
    // Declared after the memory that its operations read, so that it goes first.
    let mut shard = Rounds { ring: Ring::new(1024)?, data: &data, at: 0 };
    let mut samples = Samples::default();
    let begin = Instant::now();
    while let Some(due) = pace.next(begin, samples.count()) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let round = Instant::now();
        match form {
            Form::OneWrite => shard.one_write(&files.journal, partitions * bytes)?,
            Form::Dsync => shard.write_each(&files.partitions[..partitions], bytes, libc::RWF_DSYNC)?,
            Form::Barrier => {
                shard.write_each(&files.partitions[..partitions], bytes, 0)?;
                shard.flush(&files.partitions[0])?;
            }
        }
        samples.push(round.elapsed());
    }
    Ok(samples)
}

struct Rounds<'a> {
    ring: Ring,
    data: &'a AlignedBuf,
    at: usize,
}

impl Rounds<'_> {
    fn one_write(&mut self, journal: &File, bytes: usize) -> io::Result<()> {
        let bytes = round_up(bytes);
        if self.at + bytes > JOURNAL_BYTES {
            self.at = 0;
        }
        self.write(journal, self.at, bytes, libc::RWF_DSYNC)?;
        self.at += bytes;
        self.wait(1)
    }

    /// Appends to each file: the blocks that the appended bytes touch are written, a block begun before again.
    fn write_each(&mut self, files: &[File], bytes: usize, flags: i32) -> io::Result<()> {
        if self.at + bytes > FILE_BYTES {
            self.at = 0;
        }
        let first = self.at / BLOCK_BYTES * BLOCK_BYTES;
        self.at += bytes;
        for file in files {
            self.write(file, first, round_up(self.at) - first, flags)?;
        }
        self.wait(files.len())
    }

    /// A flush of the device: direct writes before it were complete, and changed no metadata, so one file's sync does for all.
    fn flush(&mut self, file: &File) -> io::Result<()> {
        let sync = opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC);
        // SAFETY: it names no memory, and the file outlives the ring.
        unsafe { self.ring.push(&sync.build())? };
        self.wait(1)
    }

    fn write(&mut self, file: &File, at: usize, bytes: usize, flags: i32) -> io::Result<()> {
        let data = &self.data[..bytes];
        let write = opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), bytes as u32);
        // SAFETY: the data is only read, and it and the file outlive the ring.
        unsafe { self.ring.push(&write.offset(at as u64).rw_flags(flags).build()) }
    }

    fn wait(&mut self, count: usize) -> io::Result<()> {
        self.ring.complete(count, |completion| ring::result(&completion).map(drop))
    }
}
