//! Offsets by time (ListOffsets): which record is the first at or after a time, and which has the largest timestamp (KIP-734).
//!
//! Owner: the task of the reader. Descriptions of segments and the time index lead to a batch; the batch's header is what counts, and
//! its records are read for the exact answer. A time index that lies costs a walk through its segment, never a wrong answer.

use base::{Offset, WallTime};
use record::{
    BatchView, Batches, Compression, DecodeError, NO_TIMESTAMP, TimestampOffset, find_max_timestamp, find_timestamp,
};
use shard::Shard;

use super::disk::floor_entry;
use super::view::{LogSource, SegmentOnDisk};
use super::{BlockCache, Read, ReadError, ReadLimits, read_log};
use crate::segment::{FileKind, Floor, TimeEntry};

/// Batches are looked through in reads of this size.
const SCAN_BYTES: usize = 128 * 1024;
/// A batch whose records are more than this once decompressed is not looked into.
const RECORDS_BYTES_MAX: usize = 128 << 20;
/// A batch larger than this is looked into on the helper thread; a compressed one, which may grow a thousandfold, already at less.
const INLINE_BYTES_MAX: usize = 64 * 1024;
const INLINE_COMPRESSED_BYTES_MAX: usize = 2048;

/// A segment that may hold the record sought, and what its time index says.
struct Candidate {
    segment: SegmentOnDisk,
    floor: Floor<TimeEntry>,
    /// Memory has batches of it as they were before it was compacted, which need not fit its index.
    differs_in_memory: bool,
    /// First offset of the log in it.
    from: Offset,
}

/// The first record with a timestamp of `at` or later, of those from the log's start up to below `upto`.
///
/// # Errors
/// See [`ReadError`].
pub async fn offset_for_time(
    log: &impl LogSource,
    cache: &BlockCache,
    at: WallTime,
    upto: Offset,
    damaged_index: impl Fn(Offset),
) -> Result<Option<TimestampOffset>, ReadError> {
    let mut above = Offset(0);
    loop {
        let Some(candidate) = candidate(log, at, above)? else { return Ok(None) };
        let (meta, from) = (candidate.segment.meta, candidate.from);
        let entry =
            floor_entry(cache, &candidate.segment, candidate.floor, FileKind::TimeIndex, |entry: &TimeEntry| {
                entry.timestamp < at
            });
        let begin = match entry.await {
            Ok(entry) => checked_start(log, cache, entry, from, upto, &damaged_index).await?,
            Err(_) => None,
        };
        if begin.is_none() && !candidate.differs_in_memory {
            damaged_index(meta.base_offset);
        }
        let end = meta.end_offset.min(upto);
        let span = Span { from: begin.unwrap_or(from), upto: end, scan_bytes: SCAN_BYTES };
        let found = first_in(log, cache, at, span, &damaged_index).await?;
        if found.is_some() || meta.end_offset >= upto {
            return Ok(found);
        }
        // The largest timestamp of the segment is below the log's start, or its producer lied in the header.
        above = meta.end_offset;
    }
}

/// The first segment that ends above `above` and has a timestamp of `at` or later.
fn candidate(log: &impl LogSource, at: WallTime, above: Offset) -> Result<Option<Candidate>, ReadError> {
    log.view(|view| {
        if view.offline {
            return Err(ReadError::Offline);
        }
        let first = view.segment_of(above.max(view.start)).unwrap_or(view.segments());
        let found = (first..view.segments()).find(|&segment| view.meta(segment).max_timestamp >= at);
        Ok(found.map(|segment| Candidate {
            segment: view.on_disk(segment),
            floor: view.time_floor(segment, at),
            differs_in_memory: view.meta(segment).revision > 0
                && view.tail.start_offset() < view.meta(segment).end_offset,
            from: view.meta(segment).base_offset.max(view.start),
        }))
    })
}

/// Where the search begins by the time index: at the batch of its entry, once that is seen to be as the entry says. `None`: it lies.
async fn checked_start(
    log: &impl LogSource,
    cache: &BlockCache,
    entry: Option<TimeEntry>,
    from: Offset,
    upto: Offset,
    damaged_index: &impl Fn(Offset),
) -> Result<Option<Offset>, ReadError> {
    let Some(entry) = entry.filter(|entry| entry.last_offset >= from && entry.last_offset < upto) else {
        return Ok(Some(from));
    };
    let limits = ReadLimits { max_bytes: 0, at_least_one_batch: true, upto };
    let read = read_log(log, cache, entry.last_offset, &limits, damaged_index).await?;
    let bytes = read.to_vec();
    let holds = BatchView::parse(&bytes)
        .is_ok_and(|batch| batch.last_offset() == entry.last_offset && batch.header().max_timestamp == entry.timestamp);
    Ok(holds.then(|| Offset(entry.last_offset.0 + 1)))
}

/// The first record at `from` or above it, and below `upto`.
///
/// # Errors
/// See [`ReadError`].
pub async fn record_at(
    log: &impl LogSource,
    cache: &BlockCache,
    from: Offset,
    upto: Offset,
    damaged_index: impl Fn(Offset),
) -> Result<Option<TimestampOffset>, ReadError> {
    // Most often the record is in the first batch: no more is read at a time.
    let span = Span { from, upto, scan_bytes: 0 };
    first_in(log, cache, WallTime(i64::MIN), span, &damaged_index).await
}

/// What is looked through.
struct Span {
    from: Offset,
    upto: Offset,
    /// Bytes of each read, beyond its first batch.
    scan_bytes: usize,
}

/// The first record with a timestamp of `at` or later among the batches of a span.
async fn first_in(
    log: &impl LogSource,
    cache: &BlockCache,
    at: WallTime,
    span: Span,
    damaged_index: &impl Fn(Offset),
) -> Result<Option<TimestampOffset>, ReadError> {
    let Span { mut from, upto, scan_bytes } = span;
    let limits = ReadLimits { max_bytes: scan_bytes, at_least_one_batch: true, upto };
    while from < upto {
        let read = match read_log(log, cache, from, &limits, damaged_index).await {
            // The log's start has moved on meanwhile.
            Err(ReadError::OutOfRange { start, .. }) if start > from => {
                from = start;
                continue;
            }
            read => read?,
        };
        if read.is_empty() {
            return Ok(None);
        }
        let bytes = read.to_vec();
        for batch in Batches::new(&bytes) {
            let batch = batch.expect("a read returns whole batches");
            if batch.header().max_timestamp >= at {
                let least = from;
                let found =
                    look(cache.shard(), &batch, move |batch| find_timestamp(batch, at, least, RECORDS_BYTES_MAX))
                        .await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            from = batch.header().next_offset().max(from);
        }
        cache.shard().yield_now().await;
    }
    Ok(None)
}

/// The first record that has the log's largest timestamp, when it is below `upto`.
///
/// # Errors
/// See [`ReadError`].
pub async fn max_timestamp(
    log: &impl LogSource,
    cache: &BlockCache,
    upto: Offset,
    damaged_index: impl Fn(Offset),
) -> Result<Option<TimestampOffset>, ReadError> {
    let offset = log.view(|view| {
        let first = view.segment_of(view.start).unwrap_or(view.segments());
        let metas = (first..view.segments()).map(|segment| view.meta(segment));
        // Of equal ones the first: so says KIP-734.
        let best = metas.reduce(|best, meta| if meta.max_timestamp > best.max_timestamp { meta } else { best })?;
        (best.max_timestamp > NO_TIMESTAMP && best.max_timestamp_offset >= view.start)
            .then_some(best.max_timestamp_offset)
    });
    let Some(offset) = offset.filter(|offset| *offset < upto) else { return Ok(None) };
    let limits = ReadLimits { max_bytes: 0, at_least_one_batch: true, upto };
    let read: Read = read_log(log, cache, offset, &limits, damaged_index).await?;
    let bytes = read.to_vec();
    match BatchView::parse(&bytes) {
        Ok(batch) => look(cache.shard(), &batch, |batch| find_max_timestamp(batch, RECORDS_BYTES_MAX)).await,
        Err(_) => Ok(None),
    }
}

/// Looks into a batch's records, on the helper thread when that may take long.
async fn look<T: Send + 'static>(
    shard: &Shard,
    batch: &BatchView<'_>,
    look: impl FnOnce(&BatchView<'_>) -> Result<T, DecodeError> + Send + 'static,
) -> Result<T, ReadError> {
    let offset = batch.base_offset();
    let plain = batch.header().compression() == Some(Compression::None);
    let inline_bytes_max = if plain { INLINE_BYTES_MAX } else { INLINE_COMPRESSED_BYTES_MAX };
    let found = if batch.bytes().len() <= inline_bytes_max {
        look(batch)
    } else {
        let bytes = batch.bytes().to_vec();
        shard.offload(move || look(&BatchView::parse(&bytes).expect("it was one"))).await
    };
    found.map_err(|error| ReadError::Records { offset, error })
}
