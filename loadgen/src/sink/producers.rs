//! What a partition remembers of its idempotent producers (KIP-98), so that a batch that is sent again is not stored again.
//!
//! Pure. The rules are those of a Kafka leader: a repetition of one of the last five batches gets its first answer; a gap, or an epoch that
//! is over, is refused; who is not known may begin anywhere.

use std::collections::{BTreeMap, VecDeque};

use base::{Offset, ProducerEpoch, ProducerId};
use record::BatchHeader;
use wire::ErrorCode;

/// Batches remembered of each producer: as many as a client has on their way at most.
const BATCHES_MAX: usize = 5;

/// Producers remembered in a partition. Beyond it the one with the lowest id goes, which got it first.
const PRODUCERS_MAX: usize = 10_000;

/// What to do with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Append,
    /// It is in the log already, from this offset on.
    Duplicate(Offset),
    Refuse(ErrorCode),
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: Offset,
}

#[derive(Clone, Debug)]
struct Producer {
    epoch: ProducerEpoch,
    /// Oldest first, and never empty.
    batches: VecDeque<Remembered>,
}

/// The producers of one partition.
#[derive(Clone, Debug, Default)]
pub struct ProducerTable(BTreeMap<ProducerId, Producer>);

impl ProducerTable {
    /// Decides on a batch that a client sent.
    #[must_use]
    pub fn check(&self, header: &BatchHeader) -> Verdict {
        let Some(producer) = self.0.get(&header.producer_id).filter(|_| header.has_producer()) else {
            return Verdict::Append;
        };
        if header.producer_epoch < producer.epoch {
            return Verdict::Refuse(ErrorCode::InvalidProducerEpoch);
        }
        let same_epoch = header.producer_epoch == producer.epoch;
        let sequences = (header.base_sequence, header.last_sequence());
        let repeated = producer.batches.iter().find(|batch| (batch.first_sequence, batch.last_sequence) == sequences);
        if let Some(repeated) = repeated.filter(|_| same_epoch) {
            return Verdict::Duplicate(repeated.base_offset);
        }
        let last = producer.batches.back().filter(|_| same_epoch);
        let expected = last.map_or(0, |last| record::last_sequence(last.last_sequence, 1));
        if header.base_sequence == expected {
            Verdict::Append
        } else {
            Verdict::Refuse(ErrorCode::OutOfOrderSequenceNumber)
        }
    }

    /// Remembers a batch that was stored.
    pub fn note(&mut self, header: &BatchHeader, base_offset: Offset) {
        if !header.has_producer() {
            return;
        }
        if self.0.len() >= PRODUCERS_MAX && !self.0.contains_key(&header.producer_id) {
            self.0.pop_first();
        }
        let epoch = header.producer_epoch;
        let producer = self.0.entry(header.producer_id).or_insert_with(|| Producer { epoch, batches: VecDeque::new() });
        if producer.epoch != epoch {
            *producer = Producer { epoch, batches: VecDeque::new() };
        }
        if producer.batches.len() == BATCHES_MAX {
            producer.batches.pop_front();
        }
        let (first_sequence, last_sequence) = (header.base_sequence, header.last_sequence());
        producer.batches.push_back(Remembered { first_sequence, last_sequence, base_offset });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WallTime;
    use record::{BatchBuilder, BatchOptions, ProducerStamp};

    fn header(id: i64, epoch: i16, base_sequence: i32, records: usize) -> BatchHeader {
        let (producer_id, producer_epoch) = (ProducerId(id), ProducerEpoch(epoch));
        let producer = Some(ProducerStamp { producer_id, producer_epoch, base_sequence });
        let mut builder = BatchBuilder::new(BatchOptions { producer, ..Default::default() });
        for _ in 0..records {
            builder.add(WallTime(0), None, None, &[]).expect("small");
        }
        BatchHeader::parse(&builder.finish().expect("has records")).expect("a batch")
    }

    #[test]
    fn batches_are_told_apart_as_kafka_does() {
        let mut table = ProducerTable::default();
        let gap = Verdict::Refuse(ErrorCode::OutOfOrderSequenceNumber);
        let fenced = Verdict::Refuse(ErrorCode::InvalidProducerEpoch);
        // id, epoch, base sequence, records -> verdict; what may be appended is, at the offset that counts from 0.
        for (index, (id, epoch, sequence, records, verdict)) in [
            (1, 0, 0, 3, Verdict::Append),
            (1, 0, 0, 3, Verdict::Duplicate(Offset(0))),
            (1, 0, 0, 2, gap),
            (1, 0, 4, 1, gap),
            (1, 0, 3, 1, Verdict::Append),
            (2, 0, 7, 1, Verdict::Append),
            (-1, -1, -1, 1, Verdict::Append),
            (-1, -1, -1, 1, Verdict::Append),
            (1, 1, 4, 1, gap),
            (1, 1, 0, 1, Verdict::Append),
            (1, 0, 3, 1, fenced),
            (3, 0, i32::MAX, 1, Verdict::Append),
            (3, 0, 0, 1, Verdict::Append),
            (3, 0, i32::MAX, 1, Verdict::Duplicate(Offset(11))),
        ]
        .into_iter()
        .enumerate()
        {
            let header = header(id, epoch, sequence, records);
            assert_eq!(table.check(&header), verdict, "case {index}");
            if verdict == Verdict::Append {
                table.note(&header, Offset(index as i64));
            }
        }
    }

    #[test]
    fn a_batch_older_than_five_is_forgotten() {
        let mut table = ProducerTable::default();
        for sequence in 0..6 {
            table.note(&header(1, 0, sequence, 1), Offset(i64::from(sequence)));
        }
        assert_eq!(table.check(&header(1, 0, 0, 1)), Verdict::Refuse(ErrorCode::OutOfOrderSequenceNumber));
        assert_eq!(table.check(&header(1, 0, 1, 1)), Verdict::Duplicate(Offset(1)));
    }
}
