//! Reading fixed-width fields from bytes that a disk gave back. Pure.
//!
//! Big-endian throughout, as Kafka's own formats are. Nothing here panics and nothing allocates: a field that is not there is
//! [`Short`], and counts are checked against the bytes that remain before anybody reserves room for them.

use base::{LeaderEpoch, Offset, PartitionIndex, PlacementEpoch, Uuid};

use crate::config::LogId;

/// The bytes end before the field does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Short;

/// A cursor over stored bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Short)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        self.array_ref().copied()
    }

    /// The next `N` bytes where they stand.
    pub(crate) fn array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], Short> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Short> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn offset(&mut self) -> Result<Offset, Short> {
        Ok(Offset(self.i64()?))
    }

    pub(crate) fn leader_epoch(&mut self) -> Result<LeaderEpoch, Short> {
        Ok(LeaderEpoch(i32::from_be_bytes(self.array()?)))
    }

    pub(crate) fn placement(&mut self) -> Result<PlacementEpoch, Short> {
        Ok(PlacementEpoch(self.u64()?))
    }

    pub(crate) fn log_id(&mut self) -> Result<LogId, Short> {
        let topic_id = Uuid(self.array()?);
        let partition = PartitionIndex(i32::from_be_bytes(self.array()?));
        Ok(LogId { topic_id, partition })
    }

    /// A count of things that take at least `bytes_min` each: never more than can be there.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Result<usize, Short> {
        let count = self.u32()? as usize;
        if count <= self.remaining() / bytes_min { Ok(count) } else { Err(Short) }
    }
}

pub(crate) fn put_log_id(out: &mut Vec<u8>, id: LogId) {
    out.extend_from_slice(&id.topic_id.0);
    out.extend_from_slice(&id.partition.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_short() {
        let mut reader = Reader::new(&[0, 0, 0, 2, 9, 9]);
        assert_eq!(reader.count(1), Ok(2));
        assert_eq!(reader.u32(), Err(Short));
        assert_eq!(reader.bytes(3), Err(Short));
        assert_eq!(reader.u16(), Ok(0x0909));
        assert!(reader.is_empty());
        // A count that the rest cannot hold is refused before anything is reserved for it.
        assert_eq!(Reader::new(&[255, 255, 255, 255, 1]).count(1), Err(Short));
    }
}
