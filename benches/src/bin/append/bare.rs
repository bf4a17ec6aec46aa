//! The reference: nothing between the writers and the ring. A writer is a position and a clock.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use benches::aligned::AlignedBuf;
use benches::process;
use benches::ring::{self, Ring};
use benches::stats::Samples;
use io_uring::{opcode, types};

use super::{Job, WRITE_BYTES};

struct Writer {
    appends: u64,
    begun: Instant,
    syncing: bool,
}

pub fn run(job: &Job) -> io::Result<Samples> {
    process::pin_to(0)?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&job.file)?;
    let fd = types::Fd(file.as_raw_fd());
    let block = AlignedBuf::zeroed(WRITE_BYTES);
    let mut ring = Ring::new(256)?;
    let end = Instant::now() + job.duration;
    let mut writers: Vec<Writer> =
        (0..job.writers).map(|_| Writer { appends: 0, begun: Instant::now(), syncing: false }).collect();
    let write = |ring: &mut Ring, n: usize, writer: &Writer| {
        let write = opcode::Write::new(fd, block.as_ptr(), WRITE_BYTES as u32).offset(Job::position(n, writer.appends));
        // SAFETY: the block is only read, and outlives the ring.
        unsafe { ring.push(&write.build().user_data(n as u64)) }
    };
    for (n, writer) in writers.iter().enumerate() {
        write(&mut ring, n, writer)?;
    }
    let (mut samples, mut open) = (Samples::default(), job.writers);
    while open > 0 {
        ring.submit_and_wait(1)?;
        while let Some(completion) = ring.pop() {
            let n = completion.user_data() as usize;
            let (bytes, writer) = (ring::result(&completion)?, &mut writers[n]);
            if !writer.syncing {
                assert_eq!(bytes, WRITE_BYTES, "a direct write of a block inside the file is whole");
                writer.syncing = true;
                let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC);
                // SAFETY: it names no memory.
                unsafe { ring.push(&sync.build().user_data(n as u64))? };
                continue;
            }
            let now = Instant::now();
            samples.push(now.duration_since(writer.begun));
            (writer.appends, writer.begun, writer.syncing) = (writer.appends + 1, now, false);
            if now < end { write(&mut ring, n, writer)? } else { open -= 1 }
        }
    }
    Ok(samples)
}
