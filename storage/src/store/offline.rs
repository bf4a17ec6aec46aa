//! A log whose file failed: it goes offline, and what the journal holds of it is kept in an orphan file, so that one bad file does
//! not pin the journal.

use std::io;
use std::rc::Rc;

use shard::File;

use super::core::StoreCore;
use crate::journal::codec::{FrameHead, JOURNAL_BLOCK_BYTES, frame_at};
use crate::log::{Log, Status};
use crate::manifest::LogRecord;
use crate::orphan::OrphanWriter;
use crate::recovery::image::read_file_range;
use crate::tail::{SegmentPosition, Tail};

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

/// Offline, and what its journal holds is not kept yet.
pub(crate) fn is_to_be_kept(log: &Log) -> bool {
    let state = log.0.state.borrow();
    state.status == Status::Offline && !state.kept
}

/// Copies what the journal holds of an offline log to its orphan file, durably, and marks its record.
pub(crate) async fn keep_journal(core: &Rc<StoreCore>, log: &Log) -> io::Result<()> {
    if log.0.state.borrow().kept {
        return Ok(());
    }
    // What was queued before it failed counts too.
    core.drain().await;
    let mut orphan = OrphanWriter::create(&core.shard, core.data_dir(), log.id()).await?;
    let numbers: Vec<u32> = core.ring.borrow().live_files().collect();
    for number in numbers {
        let journal = core.journal.borrow().get(number);
        copy_file(core, &journal, &mut orphan).await?;
    }
    orphan.finish().await?;
    let mut state = log.0.state.borrow_mut();
    let mut record = LogRecord::decode(&state.record).expect("our own record");
    record.offline = true;
    state.record = record.encode().into();
    state.kept = true;
    // Nothing is read or written any more: let its memory go.
    let place = SegmentPosition { segment: state.end, position: 0 };
    state.tail = Tail::new(&core.tails, place, &[], state.end).expect("an empty tail takes no memory");
    core.settle_reserved(&mut state);
    core.dirty.borrow_mut().forget_log(log.id());
    core.writers.forget_log(log.id());
    Ok(())
}

/// Copies a log's entries out of the live frames of one journal file.
async fn copy_file(core: &StoreCore, journal: &File, orphan: &mut OrphanWriter) -> io::Result<()> {
    let (from, upto) = (core.replay_sequence.get(), core.durable_sequence.get());
    let mut at = 0;
    let mut last = 0;
    while at < core.config.journal_file_bytes {
        let first = read_file_range(journal, at, JOURNAL_BLOCK_BYTES as u64).await?;
        let head = FrameHead::parse(&first).filter(|head| head.salt == core.salt && head.sequence > last);
        let Some(head) = head.filter(|head| head.sequence <= upto) else { return Ok(()) };
        if head.sequence >= from {
            let frame = read_file_range(journal, at, head.frame_bytes() as u64).await?;
            let (head, body) = frame_at(&frame, core.salt)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a durable commit does not read back"))?;
            orphan.frame(&head, body).await?;
        }
        last = head.sequence;
        at += head.frame_bytes() as u64;
    }
    Ok(())
}
