//! Building a segment's indexes anew from its batches, when its index files are missing or do not fit.
//!
//! Owner: a background task of the log's shard. The segment is read header by header under the background budget; the new files are
//! written beside the old ones and renamed over them, so a crash leaves one or the other. Until the log has taken the new entry counts
//! over, readers walk the segment.

use std::io;
use std::path::Path;

use record::BatchHeader;
use shard::{OpenOptions, Shard, WriteSync};

use super::{ActiveSegment, FileKind};
use crate::read::{BlockCache, ReadError, SegmentOnDisk, scan_headers};

/// Reads a whole segment and makes its indexes; `segment.file` must be readable to the segment's end. What is sealed gets sealed
/// indexes.
///
/// # Errors
/// The segment file cannot be read or is damaged itself.
pub async fn rebuild_index(
    cache: &BlockCache,
    segment: &SegmentOnDisk,
    index_interval_bytes: u64,
) -> Result<ActiveSegment, ReadError> {
    let meta = segment.meta;
    let mut fresh = ActiveSegment::new(meta.base_offset, meta.created, index_interval_bytes);
    fresh.meta.revision = meta.revision;
    let each = |_: u64, header: &BatchHeader| fresh.note(header, meta.last_append);
    scan_headers(cache, &segment.file, (0, meta.base_offset), each).await?;
    // The walk knows offsets, sizes and timestamps; what the broker's clock said stays as it was.
    (fresh.meta.created, fresh.meta.last_append) = (meta.created, meta.last_append);
    if meta.sealed {
        fresh.seal();
    }
    Ok(fresh)
}

/// Writes both index files of a sealed segment whole and puts them in place, durably. `rebuilt` then knows that they are written.
///
/// # Errors
/// A file cannot be written, or its bytes are partly written already.
pub async fn write_index_files(shard: &Shard, dir: &Path, rebuilt: &mut ActiveSegment) -> io::Result<()> {
    let fs = shard.fs();
    let segment = rebuilt.meta.name();
    for kind in [FileKind::Index, FileKind::TimeIndex] {
        let path = dir.join(segment.file(kind));
        let temporary = path.with_extension(format!("{}.new", kind.extension()));
        let options = OpenOptions { read: true, write: true, create: true, direct: true, ..OpenOptions::default() };
        let file = fs.open(&temporary, options).await?;
        fs.set_len(&file, 0).await?;
        let pending = rebuilt.index.pending().into_iter().find(|write| write.kind == kind);
        if let Some(write) = pending {
            assert_eq!(write.position, 0, "nothing of a rebuilt index is written yet");
            for (piece, bytes) in write.bytes.chunks(crate::budget::PIECE_BYTES_MAX).enumerate() {
                let mut buf = shard.arena().alloc_wait(bytes.len()).await;
                buf.extend_from_slice(bytes);
                let position = (piece * crate::budget::PIECE_BYTES_MAX) as u64;
                file.write_at(position, vec![buf.freeze()], WriteSync::None).await?;
            }
            rebuilt.index.written(kind, write.entries);
        }
        let entries = rebuilt.index.entries(kind);
        let entry_bytes = if kind == FileKind::Index { 8 } else { 12 };
        fs.set_len(&file, u64::from(entries) * entry_bytes).await?;
        file.datasync().await?;
        fs.rename(&temporary, &path).await?;
        match kind {
            FileKind::Index => rebuilt.meta.index_entries = entries,
            _ => rebuilt.meta.time_index_entries = entries,
        }
    }
    fs.sync_dir(dir).await
}
