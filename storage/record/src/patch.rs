//! What a broker changes in a batch before it lands in a log.

use base::{LeaderEpoch, Offset, WallTime};

use crate::checksum::crc_of;
use crate::header::{BatchError, BatchHeader, at};

/// A batch that may be patched in place; made only from a whole one, so no setter can fail.
#[derive(Debug)]
pub struct BatchMut<'a> {
    header: BatchHeader,
    bytes: &'a mut [u8],
}

impl<'a> BatchMut<'a> {
    /// The batch at the start of `bytes`; what follows it is left alone.
    ///
    /// # Errors
    /// The bytes do not start with a whole batch of format 2.
    pub fn parse(bytes: &'a mut [u8]) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let (have_bytes, need_bytes) = (bytes.len(), header.size_bytes());
        match bytes.get_mut(..need_bytes) {
            Some(bytes) => Ok(Self { header, bytes }),
            None => Err(BatchError::Truncated { have_bytes, need_bytes }),
        }
    }

    /// The header as it stands now, patches included.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Places the batch in its log. Outside the CRC.
    pub fn set_base_offset(&mut self, offset: Offset) {
        self.header.base_offset = offset;
        self.bytes[at::BASE_OFFSET..at::BASE_OFFSET + 8].copy_from_slice(&offset.0.to_be_bytes());
    }

    /// Names the term in which the leader took the batch. Outside the CRC.
    pub fn set_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.header.leader_epoch = epoch;
        self.bytes[at::LEADER_EPOCH..at::LEADER_EPOCH + 4].copy_from_slice(&epoch.0.to_be_bytes());
    }

    /// Makes `now` the timestamp of every record (`message.timestamp.type=LogAppendTime`): sets the type bit and the
    /// maximum timestamp and computes the CRC anew, so it reads the whole batch.
    pub fn set_append_time(&mut self, now: WallTime) {
        self.header.attributes = self.header.attributes.with_append_time();
        self.header.max_timestamp = now;
        self.bytes[at::ATTRIBUTES..at::ATTRIBUTES + 2].copy_from_slice(&self.header.attributes.0.to_be_bytes());
        self.bytes[at::MAX_TIMESTAMP..at::MAX_TIMESTAMP + 8].copy_from_slice(&now.0.to_be_bytes());
        self.header.crc = crc_of(self.bytes);
        self.bytes[at::CRC..at::CRC + 4].copy_from_slice(&self.header.crc.to_be_bytes());
    }
}
