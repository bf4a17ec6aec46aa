//! A log whose file failed: it goes offline, and what the journal holds of it is kept in a file of its own, so that one bad file
//! does not pin the journal.
//!
//! An orphan file is made of journal frames with a salt of its own, and holds every entry of the log since the manifest record that
//! it follows; the manifest goes on to hold that record, marked offline. The next start tries to write the log's segments once more.

use std::io;
use std::rc::Rc;

use shard::{File, OpenOptions, WriteSync};

use super::core::StoreCore;
use crate::config::{LogId, paths};
use crate::journal::codec::{Control, Entries, Entry, FrameHead, FrameWriter, JOURNAL_BLOCK_BYTES, frame_at};
use crate::log::{Log, Status};
use crate::manifest::LogRecord;
use crate::recovery::image::read_file_range;
use crate::tail::Tail;

/// A file of the log failed.
pub(crate) fn fail(core: &StoreCore, log: &Log, error: &io::Error) {
    let mut state = log.0.state.borrow_mut();
    if matches!(state.status, Status::Offline | Status::Gone) {
        return;
    }
    state.status = Status::Offline;
    drop(state);
    tracing::error!(
        log = %log.id(), dir = %log.0.dir.display(), %error,
        "a file of this log failed: it is offline until the next start; what its journal holds is kept in `orphans`"
    );
    log.0.changed.notify_all();
    core.want_checkpoint();
}

/// Copies what the journal holds of an offline log to its orphan file, durably, and marks its record.
pub(crate) async fn keep_journal(core: &Rc<StoreCore>, log: &Log) -> io::Result<()> {
    if log.0.state.borrow().kept {
        return Ok(());
    }
    // What was queued before it failed counts too.
    core.drain().await;
    let data_dir = core.data_dir();
    let path = paths::orphan_file(data_dir, log.id());
    let unfinished = path.with_extension("new");
    let options = OpenOptions { read: false, write: true, create: true, exclusive: false, direct: true };
    let fs = core.shard.fs();
    fs.create_dir_all(paths::orphans_dir(data_dir)).await?;
    let file = fs.open(&unfinished, options).await?;
    fs.set_len(&file, 0).await?;
    let mut orphan = OrphanWriter { core, file, position: 0, sequence: 1, salt: core.shard.random() };
    let numbers: Vec<u32> = core.ring.borrow().live_files().collect();
    for number in numbers {
        let journal = core.journal.borrow().get(number);
        copy_file(core, &journal, log.id(), &mut orphan).await?;
    }
    orphan.file.datasync().await?;
    fs.rename(&unfinished, &path).await?;
    fs.sync_dir(paths::orphans_dir(data_dir)).await?;
    let mut state = log.0.state.borrow_mut();
    let mut record = LogRecord::decode(&state.record).expect("our own record");
    record.offline = true;
    state.record = record.encode().into();
    state.kept = true;
    // Nothing is read or written any more: let its memory go.
    let place = crate::tail::SegmentPosition { segment: state.end, position: 0 };
    state.tail = Tail::new(&core.tails, place, &[], state.end).expect("an empty tail takes no memory");
    core.settle_reserved(&mut state);
    core.dirty.borrow_mut().forget_log(log.id());
    core.writers.forget_log(log.id());
    Ok(())
}

struct OrphanWriter<'a> {
    core: &'a StoreCore,
    file: File,
    position: u64,
    sequence: u64,
    salt: u64,
}

impl OrphanWriter<'_> {
    /// One frame of the entries of a log out of one frame of the journal; none of it, none there.
    async fn copy(&mut self, head: &FrameHead, payload: &[u8], log: LogId) -> io::Result<()> {
        let mut buf = self.core.shard.arena().alloc_wait(head.frame_bytes()).await;
        buf.set_len(head.frame_bytes());
        let mut writer = FrameWriter::new(&mut buf);
        for entry in Entries::new(head, payload) {
            let entry = entry.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if is_of(&entry, log) {
                writer.copy(&entry);
            }
        }
        if writer.is_empty() {
            return Ok(());
        }
        let bytes = writer.finish(self.salt, self.sequence, self.sequence - 1, 0);
        buf.set_len(bytes);
        self.file.write_at(self.position, vec![buf.freeze()], WriteSync::None).await?;
        self.position += bytes as u64;
        self.sequence += 1;
        Ok(())
    }
}

fn is_of(entry: &Entry<'_>, log: LogId) -> bool {
    let of = match entry {
        Entry::Append { at, .. } => at.log,
        Entry::BlockPrefix { log, .. } => *log,
        Entry::Control(control) => match control {
            Control::Create { log, .. }
            | Control::Remove { log }
            | Control::Truncate { log, .. }
            | Control::StartMoved { log, .. }
            | Control::EpochAdopted { log, .. }
            | Control::Roll { log, .. }
            | Control::Released { log, .. } => *log,
            Control::Placed { record } => match LogRecord::decode(record) {
                Ok(record) => record.id,
                Err(_) => return false,
            },
        },
    };
    of == log
}

/// Copies a log's entries out of the live frames of one journal file.
async fn copy_file(core: &StoreCore, journal: &File, log: LogId, orphan: &mut OrphanWriter<'_>) -> io::Result<()> {
    let (from, upto) = (core.replay_sequence.get(), core.durable_sequence.get());
    let mut at = 0;
    let mut last = 0;
    while at < core.config.journal_file_bytes {
        let first = read_file_range(journal, at, JOURNAL_BLOCK_BYTES as u64).await?;
        let head = FrameHead::parse(&first).filter(|head| head.salt == core.salt && head.sequence > last);
        let Some(head) = head.filter(|head| head.sequence <= upto) else { return Ok(()) };
        if head.sequence >= from {
            let frame = read_file_range(journal, at, head.frame_bytes() as u64).await?;
            let (head, payload) = frame_at(&frame, core.salt)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a durable commit does not read back"))?;
            orphan.copy(&head, payload, log).await?;
        }
        last = head.sequence;
        at += head.frame_bytes() as u64;
    }
    Ok(())
}
