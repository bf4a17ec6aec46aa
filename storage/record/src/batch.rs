//! A whole batch in a slice, and a run of them one after another.

use base::{LeaderEpoch, Offset, WallTime};

use crate::checksum::{BatchCrc, crc_of};
use crate::header::{BatchError, BatchHeader, HEADER_BYTES};

/// One batch: its decoded header and exactly its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchView<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// The batch at the start of `bytes`; what follows it is not looked at. The CRC is not checked.
    ///
    /// # Errors
    /// The bytes do not start with a whole batch of format 2.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let need_bytes = header.size_bytes();
        match bytes.get(..need_bytes) {
            Some(bytes) => Ok(Self { header, bytes }),
            None => Err(BatchError::Truncated { have_bytes: bytes.len(), need_bytes }),
        }
    }

    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, header included.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What follows the header: the records, compressed as the header says.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    #[must_use]
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// True when the checksum in the header is that of the bytes.
    #[must_use]
    pub fn has_valid_crc(&self) -> bool {
        self.header.crc == crc_of(self.bytes)
    }

    /// The header that this batch bears once it is in a log: [`BatchHeader::encode`] of it and [`BatchView::body`] are
    /// the batch as stored. With an append time the whole batch is read for its new CRC; without, nothing is.
    #[must_use]
    pub fn placed(&self, base_offset: Offset, epoch: LeaderEpoch, append_time: Option<WallTime>) -> BatchHeader {
        let mut header = BatchHeader { base_offset, leader_epoch: epoch, ..self.header };
        if let Some(now) = append_time {
            header.attributes = header.attributes.with_append_time();
            header.max_timestamp = now;
            let mut crc = BatchCrc::new();
            crc.update(&header.encode());
            crc.update(self.body());
            header.crc = crc.value();
        }
        header
    }
}

/// Walks the batches of a run of bytes. After an error it ends; [`Batches::position`] then says where the last whole
/// batch ended, so a reader of a partial run keeps what is before it.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    run: &'a [u8],
    position: usize,
    ended: bool,
}

impl<'a> Batches<'a> {
    #[must_use]
    pub fn new(run: &'a [u8]) -> Self {
        Self { run, position: 0, ended: false }
    }

    /// Bytes of the run taken by the batches returned so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// What has not been walked yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.run[self.position..]
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.position == self.run.len() {
            return None;
        }
        let parsed = BatchView::parse(self.rest());
        match &parsed {
            Ok(batch) => self.position += batch.bytes.len(),
            Err(_) => self.ended = true,
        }
        Some(parsed)
    }
}
