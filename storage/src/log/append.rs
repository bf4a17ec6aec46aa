//! Appending: checks, the offset, one copy into the tail, and a place in the queue for the next commit. Synchronous.

use std::fmt;
use std::ops::RangeInclusive;

use base::{LeaderEpoch, Offset, WallTime};
use record::{BatchError, BatchView, HEADER_BYTES, RunChecksum};

use super::durable::Durable;
use super::{Log, LogState, Status};
use crate::journal::codec::Control;
use crate::producer::{Placed, ProducerBatch, ProducerError, ProducerLimits, Verdict};
use crate::segment::{Incoming, roll_reason};
use crate::space::NoSpace;
use crate::store::queue::{Pending, PendingAppend};
use crate::tail::SegmentPosition;

/// How a batch is appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppendOptions {
    /// The epoch under which this broker leads; patched into the batch.
    pub leader_epoch: LeaderEpoch,
    /// For topics with `LogAppendTime`: the time that all its records get.
    pub append_time: Option<WallTime>,
    /// The broker's clock.
    pub wall_now: WallTime,
}

/// A batch that has its offsets. It is not held yet.
#[derive(Debug)]
pub struct Appended {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub append_time: Option<WallTime>,
    pub log_start: Offset,
    pub durable: Durable,
}

/// A batch that its producer has sent before.
#[derive(Debug)]
pub struct Duplicate {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub timestamp: WallTime,
    pub log_start: Offset,
    /// Of the first time.
    pub durable: Durable,
}

/// Why a batch is not appended.
#[derive(Debug)]
pub enum AppendError {
    Invalid(BatchError),
    /// The bytes hold more than one batch.
    NotOneBatch,
    TooLarge {
        bytes: usize,
        bytes_limit: usize,
    },
    /// A newer leader epoch is known here.
    StaleEpoch {
        epoch: LeaderEpoch,
        latest: LeaderEpoch,
    },
    /// Answer as the first time, once that is durable.
    Duplicate(Duplicate),
    Producer(ProducerError),
    /// The journal, the queue before it or memory has no room now: wait for [`Log::room`] and try again.
    Backpressure,
    /// The disk is full: retriable, and no use before space was made.
    NoSpace(NoSpace),
    /// A segment of the log could not be written or read.
    Offline,
    /// The log is being truncated or moved: retriable.
    Busy,
    /// The log was removed, moved, or its store closed.
    Gone,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => write!(f, "{error}"),
            Self::NotOneBatch => f.write_str("more than one batch in an append of one"),
            Self::TooLarge { bytes, bytes_limit } => {
                write!(f, "a batch of {bytes} bytes where {bytes_limit} are allowed")
            }
            Self::StaleEpoch { epoch, latest } => write!(f, "leader epoch {epoch} is over: {latest} has begun"),
            Self::Duplicate(first) => write!(f, "appended before, at offset {}", first.base_offset),
            Self::Producer(error) => write!(f, "{error}"),
            Self::Backpressure => f.write_str("the journal is catching up"),
            Self::NoSpace(error) => write!(f, "{error}"),
            Self::Offline => f.write_str("the log is offline: its files failed"),
            Self::Busy => f.write_str("the log is being truncated or moved"),
            Self::Gone => f.write_str("the log is not on this shard any more"),
        }
    }
}

impl std::error::Error for AppendError {}

impl Log {
    /// Assigns the next offsets to one batch, whose CRC the caller has checked, and queues it for the next commit.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing has changed then.
    pub fn append(&self, batch: &[u8], options: AppendOptions) -> Result<Appended, AppendError> {
        let view = BatchView::parse(batch).map_err(AppendError::Invalid)?;
        if view.bytes().len() != batch.len() {
            return Err(AppendError::NotOneBatch);
        }
        // In the journal and after it the batch's own checksum is all that vouches for its body.
        debug_assert!(view.has_valid_crc(), "the caller has checked the CRC");
        let mut state = self.0.state.borrow_mut();
        self.admit(&view, &options, &mut state)?;
        let base_offset = state.end;
        let last_offset = base_offset.plus(i64::from(view.header().last_offset_delta));
        let incoming = Incoming { bytes: batch.len() as u64, last_offset };
        let rolls = roll_reason(state.active(), &state.roll_limits(), Some(incoming), options.wall_now).is_some();
        self.reserve(&mut state, batch.len(), rolls)?;
        if rolls {
            self.roll(&mut state, options.wall_now);
        }
        let header = view.placed(base_offset, options.leader_epoch, options.append_time);
        let encoded = header.encode();
        let placed = match state.tail.append(&[&encoded, view.body()], base_offset, last_offset) {
            Ok(placed) => placed,
            Err(_no_memory) => {
                self.unreserve(&mut state, batch.len());
                self.0.core.meters.appends_held_back.add(1);
                self.0.core.want_memory();
                return Err(AppendError::Backpressure);
            }
        };
        state.end = Offset(last_offset.0 + 1);
        state.appended_bytes += batch.len() as u64;
        state.dirty = true;
        state.active_mut().note(&header, options.wall_now);
        if options.leader_epoch.0 >= 0 && options.leader_epoch > state.epochs.latest() {
            state.epochs.assign(options.leader_epoch, base_offset);
        }
        if let Some(of) = ProducerBatch::of(&header) {
            let placed = Placed { base_offset, last_offset, timestamp: header.max_timestamp };
            let limits =
                ProducerLimits { expiration_ms: state.config.producer_expiration_ms, ..ProducerLimits::default() };
            state.producers.note(&of, &placed, options.wall_now, &limits);
        }
        self.enqueue(&mut state, placed, &encoded, base_offset..=last_offset);
        let (end, held) = (state.end, state.held_end);
        let durable = state.waiters.wait(end, held);
        let log_start = state.start;
        Ok(Appended { base_offset, last_offset, append_time: options.append_time, log_start, durable })
    }

    /// Resolves when an append that met [`AppendError::Backpressure`] may be tried again.
    pub fn room(&self) -> impl Future<Output = ()> + use<> {
        self.0.core.room.wait()
    }

    fn admit(&self, view: &BatchView<'_>, options: &AppendOptions, state: &mut LogState) -> Result<(), AppendError> {
        match state.status {
            Status::Online if !self.0.core.closing.get() => {}
            Status::Offline => return Err(AppendError::Offline),
            Status::Truncating | Status::Parked => return Err(AppendError::Busy),
            Status::Online | Status::Gone => return Err(AppendError::Gone),
        }
        let bytes_limit = (state.config.max_message_bytes as usize).min(self.0.core.batch_bytes_max());
        if view.bytes().len() > bytes_limit {
            return Err(AppendError::TooLarge { bytes: view.bytes().len(), bytes_limit });
        }
        let latest = state.epochs.latest();
        if options.leader_epoch < latest {
            return Err(AppendError::StaleEpoch { epoch: options.leader_epoch, latest });
        }
        let Some(of) = ProducerBatch::of(view.header()) else { return Ok(()) };
        match state.producers.check(&of).map_err(AppendError::Producer)? {
            Verdict::Append => Ok(()),
            Verdict::Duplicate(first) => {
                let held = state.held_end;
                let durable = state.waiters.wait(Offset(first.last_offset.0 + 1), held);
                let Placed { base_offset, last_offset, timestamp } = first;
                let log_start = state.start;
                Err(AppendError::Duplicate(Duplicate { base_offset, last_offset, timestamp, log_start, durable }))
            }
        }
    }

    /// Promises room in the journal and on the disk.
    fn reserve(&self, state: &mut LogState, bytes: usize, rolls: bool) -> Result<(), AppendError> {
        let core = &self.0.core;
        let place = state.next_place();
        let (charge, _) = if rolls {
            let roll = Control::Roll { log: self.0.id, segment: state.end, sealed_bytes: 0, created: WallTime(0) };
            let (charge, extends) = core.queue.borrow().charge(None, state.end, 0, bytes);
            (charge + Pending::charge_of(&roll.encode()), extends)
        } else {
            core.queue.borrow().charge(state.pending, place.segment, place.position, bytes)
        };
        let class = state.space_class();
        if let Err(full) = core.space.borrow_mut().reserve(bytes as u64, class) {
            core.meters.appends_without_space.add(1);
            return Err(AppendError::NoSpace(full));
        }
        if !core.ring.borrow_mut().reserve(charge, core.control_room_bytes()) {
            core.space.borrow_mut().released(bytes as u64, class);
            core.meters.appends_held_back.add(1);
            core.want_checkpoint();
            core.grow_wanted.notify_all();
            return Err(AppendError::Backpressure);
        }
        state.reserved_bytes += bytes as u64;
        state.promised += charge;
        Ok(())
    }

    fn unreserve(&self, state: &mut LogState, bytes: usize) {
        let core = &self.0.core;
        core.space.borrow_mut().released(bytes as u64, state.space_class());
        state.reserved_bytes -= bytes as u64;
        core.ring.borrow_mut().release(std::mem::take(&mut state.promised));
    }

    /// Ends the active segment and begins the next one at the log's end; room for the entry has been promised.
    pub(super) fn roll(&self, state: &mut LogState, now: WallTime) {
        let control =
            Control::Roll { log: self.0.id, segment: state.end, sealed_bytes: state.active().meta.bytes, created: now };
        let (durable, _) = shard::sync::oneshot::channel();
        let encoded = control.encode();
        let charge = Pending::charge_of(&encoded);
        let pending = Pending::Control { encoded, durable };
        state.promised = state.promised.saturating_sub(charge);
        self.0.core.queue.borrow_mut().push(pending);
        state.begin_segment(now, self.0.core.index_interval_bytes(&state.config));
        state.pending = None;
    }

    fn enqueue(
        &self,
        state: &mut LogState,
        placed: crate::tail::TailAppend,
        header: &[u8; HEADER_BYTES],
        offsets: RangeInclusive<Offset>,
    ) {
        let core = &self.0.core;
        let (first, last) = offsets.into_inner();
        let SegmentPosition { segment, position } = placed.place;
        let bytes = (placed.addresses.end.0 - placed.addresses.start.0) as usize;
        let mut queue = core.queue.borrow_mut();
        let (charge, extends) = queue.charge(state.pending, segment, position, bytes);
        assert_eq!(charge, state.promised, "what was promised is what it takes");
        state.promised = 0;
        match state.pending.filter(|_| extends) {
            Some(index) => queue.extend(index, last, placed.addresses.end, header),
            None => {
                let log = self.0.clone();
                let mut checksum = RunChecksum::default();
                checksum.add(header);
                let addresses = placed.addresses;
                let append = PendingAppend { log, segment, position, first, last, addresses, checksum };
                state.pending = Some(queue.push(Pending::Append(append)));
            }
        }
        drop(queue);
        core.commit_wanted.notify_all();
    }
}
