//! Writes a segment that is to replace others, with its indexes, in a directory of its own in the trash: until it is put in place it is
//! nobody's, and what is left of it goes at the next start.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use record::BatchHeader;
use shard::{File, OpenOptions, WriteSync};

use super::PassError;
use crate::budget::PIECE_BYTES_MAX;
use crate::config::{LogId, paths};
use crate::journal::codec::SEGMENT_BYTES_MAX;
use crate::segment::{ActiveSegment, BLOCK_BYTES, FileKind, SegmentMeta, write_index_files};
use crate::store::core::StoreCore;
use crate::store::trash::Trash;

/// A whole segment, durable in a directory of its own.
pub(crate) struct Staged {
    pub(crate) meta: SegmentMeta,
    pub(crate) dir: StagingDir,
}

/// A directory in the trash, which removes it once nobody needs it.
pub(crate) struct StagingDir {
    path: PathBuf,
    trash: Trash,
}

impl StagingDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        self.trash.put(vec![std::mem::take(&mut self.path)], Duration::ZERO);
    }
}

pub(super) struct SegmentWriter {
    core: Rc<StoreCore>,
    dir: StagingDir,
    path: PathBuf,
    file: File,
    segment: ActiveSegment,
    /// Whole blocks are in the file, this is what follows.
    pending: Vec<u8>,
    written: u64,
}

impl SegmentWriter {
    /// Begins the next revision of `first`.
    pub(super) async fn create(
        core: &Rc<StoreCore>,
        log: LogId,
        first: &SegmentMeta,
        index_interval_bytes: u64,
    ) -> Result<Self, PassError> {
        let path = paths::trash_dir(core.data_dir()).join(format!("{log}-{:016x}-compacting", core.shard.random()));
        let mut segment = ActiveSegment::new(first.base_offset, first.created, index_interval_bytes);
        segment.meta.revision = first.name().next().revision;
        let file_path = path.join(segment.meta.name().file(FileKind::Log));
        let dir = StagingDir { path, trash: core.trash.clone() };
        let fs = core.shard.fs();
        fs.create_dir_all(dir.path()).await.map_err(PassError::write(dir.path()))?;
        let options = OpenOptions { read: false, write: true, create: true, exclusive: true, direct: true };
        let file = fs.open(&file_path, options).await.map_err(PassError::write(&file_path))?;
        Ok(Self { core: core.clone(), dir, path: file_path, file, segment, pending: Vec::new(), written: 0 })
    }

    /// The next batch.
    pub(super) async fn push(&mut self, batch: &[u8]) -> Result<(), PassError> {
        let header = BatchHeader::parse(batch).expect("compaction keeps or builds whole batches");
        if self.segment.meta.bytes + batch.len() as u64 > SEGMENT_BYTES_MAX {
            // Only where batches take more room than before, compressed anew at another level.
            let error = std::io::Error::other("the segment would be larger than 2 GiB");
            return Err(PassError::write(&self.path)(error));
        }
        let last_append = self.segment.meta.last_append;
        self.segment.note(&header, last_append);
        self.pending.extend_from_slice(batch);
        while self.pending.len() >= PIECE_BYTES_MAX {
            self.write(PIECE_BYTES_MAX).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: usize) -> Result<(), PassError> {
        let blocks_bytes = bytes.next_multiple_of(BLOCK_BYTES);
        let _in_flight = self.core.budget.write(blocks_bytes).await;
        let mut piece = self.core.shard.arena().alloc_wait(blocks_bytes).await;
        piece.extend_from_slice(&self.pending[..bytes]);
        piece.pad_to(BLOCK_BYTES);
        self.core.space.borrow_mut().allocating(blocks_bytes as u64);
        let written = self.file.write_at(self.written, vec![piece.freeze()], WriteSync::None).await;
        self.core.space.borrow_mut().allocated(blocks_bytes as u64);
        written.map_err(PassError::write(&self.path))?;
        self.pending.drain(..bytes);
        self.written += blocks_bytes as u64;
        self.core.meters.compaction_written_bytes.add(blocks_bytes as u64);
        Ok(())
    }

    /// Makes all of it durable, where it is.
    pub(super) async fn finish(mut self) -> Result<Staged, PassError> {
        while !self.pending.is_empty() {
            self.write(self.pending.len().min(PIECE_BYTES_MAX)).await?;
        }
        let bytes = self.segment.meta.bytes;
        let fs = self.core.shard.fs();
        fs.set_len(&self.file, bytes).await.map_err(PassError::write(&self.path))?;
        self.file.datasync().await.map_err(PassError::write(&self.path))?;
        self.segment.seal();
        let _in_flight = self.core.budget.write(PIECE_BYTES_MAX).await;
        let written = write_index_files(&self.core.shard, self.dir.path(), &mut self.segment).await;
        written.map_err(PassError::write(self.dir.path()))?;
        Ok(Staged { meta: self.segment.meta, dir: self.dir })
    }
}
