//! Reads a sealed segment from front to back, batch by batch, each checked; past the block cache, which is for consumers.

use std::path::PathBuf;
use std::rc::Rc;

use base::{MIB, Offset};
use record::{BatchHeader, BatchView, HEADER_BYTES, crc_of};
use shard::File;

use super::PassError;
use crate::budget::PIECE_BYTES_MAX;
use crate::log::Log;
use crate::read::{Corruption, Misplaced, ReadError};
use crate::segment::{BLOCK_BYTES, FileKey, FileKind, SegmentMeta};
use crate::store::core::StoreCore;

/// No log takes a larger batch; a header that claims one is damaged.
const BATCH_BYTES_MAX: usize = 64 * MIB;

pub(super) struct SegmentReader {
    core: Rc<StoreCore>,
    file: File,
    path: PathBuf,
    meta: SegmentMeta,
    /// What was read and not passed yet, and before it the batch that was passed last.
    window: Vec<u8>,
    /// Where the window ends in the file.
    read_to: u64,
    /// The batch passed last, within the window.
    batch: std::ops::Range<usize>,
    least: Offset,
}

impl SegmentReader {
    pub(super) async fn open(core: &Rc<StoreCore>, log: &Log, meta: &SegmentMeta) -> Result<Self, PassError> {
        let key = FileKey { log: log.id(), segment: meta.name(), kind: FileKind::Log };
        let path = key.path(&log.0.dir);
        let file = core.files.open(key, &log.0.dir).await.map_err(|error| io(&path, &error))?;
        Ok(Self {
            core: core.clone(),
            file,
            path,
            meta: *meta,
            window: Vec::new(),
            read_to: 0,
            batch: 0..0,
            least: meta.base_offset,
        })
    }

    /// Passes the next batch, which [`SegmentReader::batch`] then gives; false at the end. `check` says before each read whether to go on.
    pub(super) async fn next(&mut self, check: impl Fn() -> Result<(), PassError>) -> Result<bool, PassError> {
        let start = self.batch.end;
        if self.position(start) == self.meta.bytes {
            return Ok(false);
        }
        let start = self.hold(start, HEADER_BYTES, &check).await?;
        let header = BatchHeader::parse(&self.window[start..])
            .map_err(|error| self.corrupt(start, Corruption::Header(error)))?;
        self.place(start, &header).map_err(|error| self.corrupt(start, Corruption::Misplaced(error)))?;
        let start = self.hold(start, header.size_bytes(), &check).await?;
        let bytes = &self.window[start..start + header.size_bytes()];
        let computed = crc_of(bytes);
        if computed != header.crc {
            return Err(self.corrupt(start, Corruption::Crc { stored: header.crc, computed }));
        }
        self.batch = start..start + header.size_bytes();
        self.least = header.next_offset();
        Ok(true)
    }

    /// The batch passed last.
    pub(super) fn batch(&self) -> BatchView<'_> {
        BatchView::parse(&self.window[self.batch.clone()]).expect("it was parsed when it was passed")
    }

    fn position(&self, within: usize) -> u64 {
        self.read_to - (self.window.len() - within) as u64
    }

    /// What is known of a batch's offsets lies outside its checksum.
    fn place(&self, start: usize, header: &BatchHeader) -> Result<(), Misplaced> {
        let (base, last, size_bytes) = (header.base_offset, header.last_offset(), header.size_bytes());
        let available_bytes = self.meta.bytes - self.position(start);
        if base < self.least || last < base {
            return Err(Misplaced::Offsets { base, last, least: self.least });
        }
        if last >= self.meta.end_offset {
            return Err(Misplaced::Beyond { last, end: self.meta.end_offset });
        }
        if size_bytes as u64 > available_bytes || size_bytes > BATCH_BYTES_MAX {
            return Err(Misplaced::PastEnd { size_bytes, available_bytes });
        }
        Ok(())
    }

    /// Has the window hold `bytes` from `start` on; gives where they begin then.
    async fn hold(
        &mut self,
        start: usize,
        bytes: usize,
        check: &impl Fn() -> Result<(), PassError>,
    ) -> Result<usize, PassError> {
        if self.window.len() - start >= bytes {
            return Ok(start);
        }
        self.window.drain(..start);
        self.batch = 0..0;
        while self.window.len() < bytes {
            check()?;
            let wanted = (self.meta.bytes - self.read_to).min(PIECE_BYTES_MAX as u64) as usize;
            if wanted == 0 {
                return Err(self.corrupt(0, Corruption::Short { expected_bytes: self.meta.bytes }));
            }
            let len = wanted.next_multiple_of(self.file.alignment().max(BLOCK_BYTES));
            let _in_flight = self.core.budget.read(len).await;
            let piece = self.file.read_at(self.read_to, len).await.map_err(|error| io(&self.path, &error))?;
            if piece.len() < wanted {
                return Err(self.corrupt(0, Corruption::Short { expected_bytes: self.meta.bytes }));
            }
            self.window.extend_from_slice(&piece[..wanted]);
            self.read_to += wanted as u64;
            self.core.meters.compaction_read_bytes.add(wanted as u64);
        }
        Ok(0)
    }

    fn corrupt(&self, within: usize, reason: Corruption) -> PassError {
        PassError::Read(ReadError::Corrupt { file: self.path.clone(), position: self.position(within), reason })
    }
}

fn io(path: &std::path::Path, error: &std::io::Error) -> PassError {
    PassError::Read(ReadError::Io { file: path.to_owned(), kind: error.kind(), os_code: error.raw_os_error() })
}
