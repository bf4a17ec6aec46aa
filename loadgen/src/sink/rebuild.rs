//! Batches taken apart into records and put together again: only those that a fault falls into.

use base::{LeaderEpoch, Offset, WallTime};
use record::{
    BatchBuilder, BatchHeader, BatchOptions, BatchView, Compression, Header, ProducerStamp, Record, decode_records,
};

use super::fault::{FaultKind, Hit};

/// The longest that a batch may be after decompression.
const INFLATED_BYTES_MAX: usize = 256 << 20;

/// A batch that can't be taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// A record by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    timestamp: WallTime,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl OwnedRecord {
    fn new(record: &Record<'_>) -> Self {
        Self {
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec))).collect(),
        }
    }

    fn add_to(&self, builder: &mut BatchBuilder) {
        let headers: Vec<Header<'_>> =
            self.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
        let added = builder.add(self.timestamp, self.key.as_deref(), self.value.as_deref(), &headers);
        added.expect("it came out of a batch, so it fits into one");
    }

    fn corrupt(&mut self) {
        match self.value.as_mut().and_then(|value| value.last_mut()) {
            Some(byte) => *byte ^= 0xff,
            None => self.value = Some(vec![0xff]),
        }
    }
}

/// A batch as its records, one place for each offset; `None` where there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    compression: Compression,
    producer: Option<ProducerStamp>,
    pub places: Vec<Option<OwnedRecord>>,
}

impl Parts {
    /// # Errors
    /// The batch's records can't be read, or don't have the offsets that its header says.
    pub fn of(batch: &BatchView<'_>) -> Result<Self, Unreadable> {
        let header = batch.header();
        let decoded = decode_records(batch, INFLATED_BYTES_MAX).map_err(|_| Unreadable)?;
        let count = usize::try_from(header.last_offset_delta).map_err(|_| Unreadable)? + 1;
        let mut places = Vec::new();
        for record in decoded.records() {
            let record = record.map_err(|_| Unreadable)?;
            let place = record.offset.0.checked_sub(header.base_offset.0).and_then(|delta| usize::try_from(delta).ok());
            let place = place.filter(|place| (places.len()..count).contains(place)).ok_or(Unreadable)?;
            places.resize(place, None);
            places.push(Some(OwnedRecord::new(&record)));
        }
        places.resize(count, None);
        Ok(Self { compression: header.compression().ok_or(Unreadable)?, producer: stamp(header), places })
    }

    /// Applies the faults that change what is stored. The records that are to be stored a second time, behind the batch, come back.
    pub fn apply(&mut self, hits: &[Hit]) -> Vec<OwnedRecord> {
        let mut again = Vec::new();
        for hit in hits {
            let place = &mut self.places[hit.index];
            match hit.kind {
                FaultKind::Drop => *place = None,
                FaultKind::Corrupt => place.as_mut().into_iter().for_each(OwnedRecord::corrupt),
                FaultKind::Duplicate => again.extend(place.clone()),
                _ => {}
            }
        }
        // Only now: numbers are the records', not those of their places.
        let last = self.places.len() - 1;
        for hit in hits.iter().filter(|hit| hit.kind == FaultKind::Swap && hit.index < last) {
            self.places.swap(hit.index, hit.index + 1);
        }
        again
    }

    /// The batch with its base offset, its CRC right.
    #[must_use]
    pub fn build(&self, base_offset: Offset) -> Vec<u8> {
        let compression = if self.places.iter().any(Option::is_some) { self.compression } else { Compression::None };
        build(BatchOptions { compression, producer: self.producer, ..at(base_offset) }, &self.places)
    }
}

/// A record as a batch of its own.
#[must_use]
pub fn build_single(record: OwnedRecord, base_offset: Offset) -> Vec<u8> {
    build(at(base_offset), &[Some(record)])
}

fn at(base_offset: Offset) -> BatchOptions {
    BatchOptions { base_offset, leader_epoch: LeaderEpoch(0), ..Default::default() }
}

fn build(options: BatchOptions, places: &[Option<OwnedRecord>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for place in places {
        match place {
            Some(record) => record.add_to(&mut builder),
            None => builder.leave_gap(),
        }
    }
    builder.finish().expect("there is a place, and the batch is hardly longer than the one that came")
}

fn stamp(header: &BatchHeader) -> Option<ProducerStamp> {
    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
    header.has_producer().then_some(ProducerStamp { producer_id, producer_epoch, base_sequence })
}
