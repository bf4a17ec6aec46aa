//! The commit loop: whatever was appended while the last journal write was in flight goes into the next one.
//!
//! Invariants: one journal write at a time, in the order of the queue; an entry is told durable only when it and all before it are.
//! With `durability = "replicas"` a commit is told as held when it is written, and a second loop flushes behind it.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use shard::sync::oneshot;
use shard::{Buf, Slice, WriteSync};

use super::core::{Committed, StoreCore};
use super::queue::{Pending, PendingAppend};
use crate::journal::codec::{AppendAt, FrameWriter, JOURNAL_BLOCK_BYTES};
use crate::journal::ring::{FramePlace, RingState, frame_bytes_max};

/// Live journal that asks for a checkpoint however large the journal is: a device that is written to its limit then gives room back a
/// little at a time, not all at once after a long wait.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// A commit on its way.
struct Commit {
    place: FramePlace,
    buf: Buf,
    /// Bytes of the buffer that the frame begins with, and what follows them.
    entries_bytes: usize,
    apart: Vec<Part>,
    entries: u64,
    appends: Vec<Committed>,
    controls: Vec<oneshot::Sender<()>>,
}

/// A part of a frame behind its entries.
enum Part {
    Tail(Slice),
    /// A range of the commit buffer.
    Copied(Range<usize>),
}

/// A commit that is written and not flushed yet.
pub(crate) struct Unflushed {
    file: u32,
    sequence: u64,
    entries: u64,
    appends: Vec<Committed>,
    controls: Vec<oneshot::Sender<()>>,
}

/// Commits that wait for the flush behind them.
#[derive(Default)]
pub(crate) struct FlushQueue {
    commits: std::cell::RefCell<VecDeque<Unflushed>>,
    wanted: shard::sync::Event,
}

/// Runs until the store stops: a change that began before it closed is still committed.
pub(crate) async fn commit_loop(core: Rc<StoreCore>, flushes: Rc<FlushQueue>) {
    loop {
        while core.queue.borrow().is_empty() {
            if core.stopping.get() {
                return;
            }
            core.commit_wanted.wait().await;
        }
        // Others may be about to append in this very turn: let them come along.
        core.shard.yield_now().await;
        let buf = commit_buffer(&core).await;
        write(&core, build(&core, buf), &flushes).await;
    }
}

/// The store's commit buffer. It goes along with each write and comes back when that is done; somebody would have to hold on to it for
/// another to be needed.
async fn commit_buffer(core: &StoreCore) -> Buf {
    let longest = frame_bytes_max(core.config.journal_file_bytes);
    let own = core.commit_buffer.borrow_mut().take();
    let mut buf = match own {
        Some(buf) => buf,
        None => core.shard.arena().alloc_wait(longest).await,
    };
    buf.set_len(longest);
    buf
}

/// Moves entries from the queue into a frame: as many as its buffer and its place take.
fn build(core: &StoreCore, mut buf: Buf) -> Commit {
    let (mut queue, mut ring) = (core.queue.borrow_mut(), core.ring.borrow_mut());
    let first = queue.front_room().expect("something is queued").frame_bytes();
    let limit = ring.frame_limit(first).min(buf.len());
    let mut writer = FrameWriter::new(&mut buf[..limit]);
    let (mut entries, mut appends, mut controls, mut apart) = (0, Vec::new(), Vec::new(), Vec::new());
    while let Some(room) = queue.front_room().filter(|&room| writer.has_room(room)) {
        let pending = queue.pop().expect("there is a front");
        ring.release(RingState::charge_for(room));
        entries += 1;
        match pending {
            Pending::Append(append) => {
                put_append(&mut writer, &append, room.blocks > 0, &mut apart);
                let end = append.last.plus(1);
                appends.push(Committed { end, address: append.addresses.end, log: append.log });
            }
            Pending::Control { encoded, durable } => {
                writer.control(&encoded);
                controls.push(durable);
            }
        }
    }
    assert!(entries > 0, "the first entry fits");
    let sequence = ring.next_sequence();
    let blocks_bytes = writer.blocks() * JOURNAL_BLOCK_BYTES;
    let entries_bytes = writer.finish(core.salt, sequence, core.durable_sequence.get(), core.manifest_version.get());
    let place = ring.place(entries_bytes + blocks_bytes).expect("room was promised to every entry");
    let half_full = ring.live_bytes() * 2 >= ring.bytes();
    let falls_behind = ring.live_bytes() * 4 >= ring.bytes() * 3;
    let due = half_full || ring.live_bytes() >= CHECKPOINT_BYTES;
    drop((queue, ring));
    if due {
        core.want_checkpoint();
    }
    if falls_behind {
        core.grow_wanted.notify_all();
    }
    core.budget.set_destage_first(half_full);
    Commit { place, buf, entries_bytes, apart, entries, appends, controls }
}

fn put_append(writer: &mut FrameWriter<'_>, append: &PendingAppend, is_apart: bool, apart: &mut Vec<Part>) {
    let mut state = append.log.state.borrow_mut();
    let prefix = state.tail.block_prefix(append.addresses.start).filter(|_| state.prefix_needed);
    if let Some((place, bytes)) = prefix {
        writer.block_prefix(append.log.id, place.segment, place.position, &[&bytes]);
    }
    state.prefix_needed = false;
    let PendingAppend { segment, position, first, last, .. } = *append;
    let at = AppendAt { log: append.log.id, segment, position, first, last };
    if is_apart {
        let (whole, partial) = state.tail.in_blocks(append.addresses.clone());
        apart.extend(whole.into_iter().map(Part::Tail));
        let copied = writer.append_apart(&at, append.bytes(), append.checksum.value(), partial.as_deref());
        apart.extend(copied.map(Part::Copied));
    } else {
        let slices = state.tail.slices(append.addresses.clone());
        let parts: Vec<&[u8]> = slices.iter().map(|slice| &slice[..]).collect();
        writer.append(&at, &parts);
    }
}

async fn write(core: &StoreCore, commit: Commit, flushes: &FlushQueue) {
    let Commit { place, buf, entries_bytes, apart, entries, appends, controls } = commit;
    let file = core.journal.borrow().get(place.file);
    let slice = buf.freeze();
    let mut data = vec![slice.slice(0..entries_bytes)];
    data.extend(apart.into_iter().map(|part| match part {
        Part::Tail(blocks) => blocks,
        Part::Copied(range) => slice.slice(range),
    }));
    let bytes: usize = data.iter().map(|part| part.len()).sum();
    let started = core.shard.now();
    let sync = if core.flushes_first() { WriteSync::Data } else { WriteSync::None };
    if let Err(error) = file.write_at(place.offset, data, sync).await {
        core.shard.abort(&format!("journal file {} at {}: the write failed: {error}", place.file, place.offset));
    }
    core.meters.commit_ns.record_since(started, core.shard.now());
    core.meters.commit_bytes.record(bytes as u64);
    core.meters.commit_entries.add(entries);
    *core.commit_buffer.borrow_mut() = slice.into_buf().ok();
    let done = Unflushed { file: place.file, sequence: place.sequence, entries, appends, controls };
    if core.flushes_first() {
        flushed(core, done);
    } else {
        for append in &done.appends {
            append.log.reached(append.end, append.address, false, true);
        }
        flushes.commits.borrow_mut().push_back(done);
        flushes.wanted.notify_all();
    }
    core.room.notify_all();
}

/// A commit, and all before it, is durable.
fn flushed(core: &StoreCore, done: Unflushed) {
    core.durable_sequence.set(done.sequence);
    core.durable_entries.set(core.durable_entries.get() + done.entries);
    for append in done.appends {
        append.log.reached(append.end, append.address, true, core.flushes_first());
        super::destage::note_flushed(core, &append.log);
    }
    for control in done.controls {
        // Nobody may be waiting any more.
        let _ = control.send(());
    }
    core.committed.notify_all();
}

/// With `durability = "replicas"`: flushes what is written, again and again, until the store stops. Not until it closes: a commit
/// may be on its way from an empty queue then.
pub(crate) async fn flush_loop(core: Rc<StoreCore>, flushes: Rc<FlushQueue>) {
    loop {
        let (upto, files) = {
            let commits = flushes.commits.borrow();
            let files: BTreeSet<u32> = commits.iter().map(|commit| commit.file).collect();
            (commits.back().map(|commit| commit.sequence), files)
        };
        let Some(upto) = upto else {
            if core.stopping.get() {
                return;
            }
            flushes.wanted.wait().await;
            continue;
        };
        for number in files {
            let file = core.journal.borrow().get(number);
            if let Err(error) = file.datasync().await {
                core.shard.abort(&format!("journal file {number}: the flush failed: {error}"));
            }
        }
        while let Some(done) = {
            let mut commits = flushes.commits.borrow_mut();
            commits.pop_front_if(|commit| commit.sequence <= upto)
        } {
            flushed(&core, done);
        }
    }
}

impl FlushQueue {
    pub(crate) fn clear(&self) {
        let commits = std::mem::take(&mut *self.commits.borrow_mut());
        drop(commits);
    }

    /// For the end of a store.
    pub(crate) fn wake(&self) {
        self.wanted.notify_all();
    }
}
