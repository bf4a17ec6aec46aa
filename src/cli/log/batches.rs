//! Walks the batches of a segment that comes in pieces: from its file, with the journal's bytes over it where the journal has some.
//!
//! Owner: the verb that looks. Memory is bounded by [`WINDOW_BYTES`] and the largest batch that a segment may hold.

use std::io;

use base::MIB;
use record::{BatchError, BatchView};
use shard::{File, Shard};
use storage::recovery::image::{JournalImage, read_file_range};
use storage::recovery::log_replay::Extent;

/// Read at a time.
const WINDOW_BYTES: u64 = 4 * MIB as u64;
/// No batch of a sound segment is longer; a longer length is damage, and not read.
const BATCH_BYTES_MAX: usize = 256 * MIB;

/// Where a segment's bytes are.
pub struct SegmentBytes<'a> {
    shard: &'a Shard,
    /// None where the journal alone has them.
    file: Option<File>,
    /// Bytes to look at.
    bytes: u64,
    overlay: Option<(&'a JournalImage, &'a [Extent])>,
}

impl<'a> SegmentBytes<'a> {
    /// All of a file.
    pub fn of_file(shard: &'a Shard, file: File) -> Self {
        Self { shard, bytes: file.bytes_at_open(), file: Some(file), overlay: None }
    }

    /// The first `bytes` of a segment's file, as they stand there.
    pub fn of_segment(shard: &'a Shard, file: Option<File>, bytes: u64) -> Self {
        Self { shard, file, bytes, overlay: None }
    }

    /// The first `bytes` of a segment, in the order in which a start would put them there.
    pub fn replayed(
        shard: &'a Shard,
        file: Option<File>,
        bytes: u64,
        journal: &'a JournalImage,
        extents: &'a [Extent],
    ) -> Self {
        Self { shard, file, bytes, overlay: Some((journal, extents)) }
    }

    /// Bytes from `from` on; short where neither file nor journal has more.
    async fn read(&self, from: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let to = (from + bytes).min(self.bytes);
        let mut out = match &self.file {
            Some(file) => read_file_range(file, from, to.saturating_sub(from)).await?,
            None => Vec::new(),
        };
        let Some((journal, extents)) = self.overlay else { return Ok(out) };
        for extent in extents.iter().filter(|extent| extent.position < to && extent.end() > from) {
            let found = journal.bytes(self.shard, extent.source, extent.bytes).await;
            let found = found.map_err(io::Error::other)?;
            let (start, end) = (extent.position.max(from), extent.end().min(to));
            let place = (start - from) as usize..(end - from) as usize;
            if out.len() < place.end {
                out.resize(place.end, 0);
            }
            out[place].copy_from_slice(&found[(start - extent.position) as usize..(end - extent.position) as usize]);
        }
        Ok(out)
    }
}

/// What comes next in a segment.
pub enum Found {
    /// A whole batch, which is the front of [`BatchWalk::batch`].
    Batch,
    /// Nothing but zeros, up to the end of the bytes.
    Zeros {
        bytes: u64,
    },
    /// Bytes that are no batch.
    Bad(BatchError),
    End,
}

/// Goes through a segment batch by batch.
pub struct BatchWalk<'a> {
    source: SegmentBytes<'a>,
    window: Vec<u8>,
    /// The position of the window's first byte.
    window_at: u64,
    /// Of the present batch.
    position: u64,
    batch_bytes: u64,
}

impl<'a> BatchWalk<'a> {
    pub fn new(source: SegmentBytes<'a>) -> Self {
        Self { source, window: Vec::new(), window_at: 0, position: 0, batch_bytes: 0 }
    }

    /// Where the present batch, or what is none, starts in the segment.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn rest(&self) -> &[u8] {
        &self.window[(self.position - self.window_at) as usize..]
    }

    /// The present batch.
    ///
    /// # Panics
    /// After anything but [`Found::Batch`].
    pub fn batch(&self) -> BatchView<'_> {
        BatchView::parse(self.rest()).expect("found just now")
    }

    /// There is nothing behind the present position but zeros, or nothing.
    pub fn is_over(&self) -> bool {
        self.batch_bytes == 0
    }

    /// Goes on behind the present batch.
    pub async fn next(&mut self) -> io::Result<Found> {
        self.position += self.batch_bytes;
        self.batch_bytes = 0;
        self.fill(1).await?;
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return Ok(Found::End);
            }
            match BatchView::parse(rest) {
                Ok(batch) => {
                    self.batch_bytes = batch.bytes().len() as u64;
                    return Ok(Found::Batch);
                }
                Err(BatchError::Truncated { have_bytes, need_bytes }) if need_bytes <= BATCH_BYTES_MAX => {
                    if !self.fill(need_bytes).await? {
                        return Ok(Found::Bad(BatchError::Truncated { have_bytes, need_bytes }));
                    }
                }
                Err(error) => {
                    return Ok(match self.zeros().await? {
                        Some(bytes) => Found::Zeros { bytes },
                        None => Found::Bad(error),
                    });
                }
            }
        }
    }

    /// Sees to it that the window holds this many bytes from the position on. False where there are not so many.
    async fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        if self.rest_bytes() >= bytes {
            return Ok(true);
        }
        let bytes_wanted = (bytes as u64).max(WINDOW_BYTES);
        self.window = self.source.read(self.position, bytes_wanted).await?;
        self.window_at = self.position;
        Ok(self.rest_bytes() >= bytes)
    }

    fn rest_bytes(&self) -> usize {
        self.window.len().saturating_sub((self.position - self.window_at) as usize)
    }

    /// How many bytes are left, if all are zero.
    async fn zeros(&self) -> io::Result<Option<u64>> {
        let mut at = self.position;
        loop {
            let piece = self.source.read(at, WINDOW_BYTES).await?;
            if piece.is_empty() {
                return Ok(Some(at - self.position));
            }
            if piece.iter().any(|byte| *byte != 0) {
                return Ok(None);
            }
            at += piece.len() as u64;
        }
    }
}
