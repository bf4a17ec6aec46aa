//! Taking records out of a batch, as compaction does: what stays keeps its offset, timestamp, key, value and headers, and the batch its
//! offsets, sequences, epochs and codec.

use base::WallTime;

use crate::attributes::{Compression, TimestampType};
use crate::builder::{BATCH_BYTES_MAX, seal};
use crate::compression::{OutOfRoom, compress};
use crate::header::{BatchHeader, HEADER_BYTES, NO_TIMESTAMP};
use crate::records::{DecodeError, Decoded, Record};
use crate::varint::{put_i32, put_i64, size_i64, take_i32, take_i64};

/// Which records of a batch stay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// For each record, in order.
    stays: Vec<bool>,
    kept: usize,
    max_timestamp: Option<WallTime>,
}

impl Selection {
    /// Records that stay.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept
    }

    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.kept == self.stays.len()
    }
}

/// Asks of each record whether it stays.
///
/// # Errors
/// The records do not decode.
pub fn select(decoded: &Decoded<'_>, mut stays: impl FnMut(&Record<'_>) -> bool) -> Result<Selection, DecodeError> {
    let mut selection = Selection::default();
    for record in decoded.records() {
        let record = record?;
        let stays = stays(&record);
        selection.stays.push(stays);
        if stays {
            selection.kept += 1;
            selection.max_timestamp = selection.max_timestamp.max(Some(record.timestamp));
        }
    }
    Ok(selection)
}

/// The batch with the records of `selection`, of which there is one at least. With a `horizon` that becomes its base timestamp (KIP-534), and
/// the records' deltas count from there; without one both stay as they are.
///
/// # Errors
/// The records do not decode; those that `selection` was made of do.
///
/// # Panics
/// Compressed, the batch is larger than 2 GiB.
pub fn retain(decoded: &Decoded<'_>, selection: &Selection, horizon: Option<WallTime>) -> Result<Vec<u8>, DecodeError> {
    let mut header = *decoded.header();
    let (body, mut out) = (decoded.body(), vec![0; HEADER_BYTES]);
    let mut records = decoded.records();
    let mut index = 0;
    loop {
        let from = body.len() - records.rest_bytes();
        let Some(record) = records.next() else { break };
        record?;
        let bytes = &body[from..body.len() - records.rest_bytes()];
        if selection.stays.get(index).copied().unwrap_or(true) {
            match horizon {
                None => out.extend_from_slice(bytes),
                Some(base) => put_with_base(bytes, header.base_timestamp, base, &mut out),
            }
        }
        index += 1;
    }
    header.record_count = i32::try_from(selection.kept).expect("no more than there were");
    if header.timestamp_type() == TimestampType::CreateTime {
        header.max_timestamp = selection.max_timestamp.unwrap_or(NO_TIMESTAMP);
    }
    if let Some(horizon) = horizon {
        header.attributes = header.attributes.with_delete_horizon(true);
        header.base_timestamp = horizon;
    }
    let mut batch = match header.compression() {
        None | Some(Compression::None) => out,
        Some(codec) => {
            let mut compressed = vec![0; HEADER_BYTES];
            compress(codec, None, &out[HEADER_BYTES..], &mut compressed, BATCH_BYTES_MAX)
                .unwrap_or_else(|OutOfRoom| panic!("a batch of more than 2 GiB"));
            compressed
        }
    };
    seal(&mut batch, header);
    Ok(batch)
}

/// The batch without any of its records: what is left of it says where it stood and what its producer had come to. As Kafka lays it out:
/// not compressed, its largest timestamp kept.
#[must_use]
pub fn emptied(header: &BatchHeader) -> Vec<u8> {
    let header = BatchHeader {
        attributes: header.attributes.with_compression(Compression::None).with_delete_horizon(false),
        base_timestamp: NO_TIMESTAMP,
        record_count: 0,
        ..*header
    };
    let mut batch = vec![0; HEADER_BYTES];
    seal(&mut batch, header);
    batch
}

/// A record that was read before, its timestamp counted from another base. Wrapping, as it is read.
fn put_with_base(record: &[u8], from: WallTime, to: WallTime, out: &mut Vec<u8>) {
    const READ_BEFORE: &str = "the record was read before";
    let mut rest = record;
    let _size = take_i32(&mut rest).expect(READ_BEFORE);
    let (attributes, mut rest) = rest.split_first().expect(READ_BEFORE);
    let delta = take_i64(&mut rest).expect(READ_BEFORE);
    let delta = from.0.wrapping_add(delta).wrapping_sub(to.0);
    let size = 1 + size_i64(delta) + rest.len();
    put_i32(out, i32::try_from(size).expect("a delta takes ten bytes at most, and a record's size has room for them"));
    out.push(*attributes);
    put_i64(out, delta);
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchView;
    use crate::builder::{BatchBuilder, BatchOptions, ProducerStamp};
    use crate::records::{Header, decode_records};
    use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

    /// Offset, timestamp, key, value, header values.
    type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Option<Vec<u8>>>);

    fn batch(compression: Compression) -> Vec<u8> {
        let producer =
            ProducerStamp { producer_id: ProducerId(7), producer_epoch: ProducerEpoch(2), base_sequence: i32::MAX - 1 };
        let options = BatchOptions {
            compression,
            producer: Some(producer),
            base_offset: Offset(100),
            leader_epoch: LeaderEpoch(3),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        for (key, value, timestamp) in
            [(b"a", Some(&b"1"[..]), 50), (b"b", None, 90), (b"a", Some(b"2"), 70), (b"c", Some(b"3"), 10)]
        {
            let headers = [Header { key: b"h", value }, Header { key: b"", value: None }];
            builder.add(WallTime(timestamp), Some(key), value, &headers).expect("a record");
        }
        builder.finish().expect("a batch")
    }

    fn rows(batch: &[u8]) -> Vec<Row> {
        let batch = BatchView::parse(batch).expect("a batch");
        assert!(batch.has_valid_crc());
        let decoded = decode_records(&batch, 1 << 20).expect("it expands");
        let row = |record: Record<'_>| {
            let headers = record.headers.map(|header| header.value.map(<[u8]>::to_vec)).collect();
            (
                record.offset.0,
                record.timestamp.0,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                headers,
            )
        };
        decoded.records().map(|record| row(record.expect("a record"))).collect()
    }

    /// Keeps the offsets of `keep`; gives the new batch.
    fn kept(batch: &[u8], keep: &[i64], horizon: Option<i64>) -> Vec<u8> {
        let view = BatchView::parse(batch).expect("a batch");
        let decoded = decode_records(&view, 1 << 20).expect("it expands");
        let selection = select(&decoded, |record| keep.contains(&record.offset.0)).expect("sound");
        assert_eq!((selection.kept(), selection.keeps_all()), (keep.len(), keep.len() == rows(batch).len()));
        retain(&decoded, &selection, horizon.map(WallTime)).expect("sound")
    }

    #[test]
    fn what_stays_is_as_it_was() {
        for compression in Compression::ALL {
            let whole = batch(compression);
            let before = *BatchView::parse(&whole).expect("a batch").header();
            for (keep, horizon, max_timestamp) in [
                (vec![100, 101, 102, 103], None, 90),
                (vec![100, 103], None, 50),
                (vec![103], None, 10),
                (vec![101, 102], Some(1_700_000_000_000), 90),
                (vec![100, 101, 102, 103], Some(-5), 90),
                (vec![102], Some(i64::MIN), 70),
            ] {
                let new = kept(&whole, &keep, horizon);
                let expected: Vec<Row> = rows(&whole).into_iter().filter(|row| keep.contains(&row.0)).collect();
                assert_eq!(rows(&new), expected, "{keep:?} of {compression}");
                let after = *BatchView::parse(&new).expect("a batch").header();
                assert_eq!(after.delete_horizon(), horizon.map(WallTime));
                let unchanged = BatchHeader {
                    batch_length: after.batch_length,
                    crc: after.crc,
                    attributes: before.attributes.with_delete_horizon(horizon.is_some()),
                    base_timestamp: horizon.map_or(before.base_timestamp, WallTime),
                    max_timestamp: WallTime(max_timestamp),
                    record_count: keep.len() as i32,
                    ..before
                };
                assert_eq!(after, unchanged);
                // Once more: the horizon stays.
                let again = kept(&new, &keep[..1], None);
                assert_eq!(BatchView::parse(&again).expect("a batch").header().delete_horizon(), horizon.map(WallTime));
                assert_eq!(rows(&again), expected[..1]);
            }
        }
    }

    #[test]
    fn append_time_stays_the_batchs() {
        let mut whole = batch(Compression::None);
        crate::BatchMut::parse(&mut whole).expect("a batch").set_append_time(WallTime(500));
        let new = kept(&whole, &[103], None);
        assert_eq!(rows(&new)[0].1, 500);
    }

    #[test]
    fn an_emptied_batch_keeps_its_place_and_its_producer() {
        for compression in Compression::ALL {
            let whole = batch(compression);
            let before = *BatchView::parse(&whole).expect("a batch").header();
            let empty = emptied(&before);
            assert_eq!((empty.len(), rows(&empty).len()), (HEADER_BYTES, 0));
            let after = *BatchView::parse(&empty).expect("a batch").header();
            assert_eq!((after.base_offset, after.last_offset()), (before.base_offset, before.last_offset()));
            assert_eq!((after.producer_id, after.last_sequence()), (before.producer_id, before.last_sequence()));
            assert_eq!((after.max_timestamp, after.leader_epoch), (before.max_timestamp, before.leader_epoch));
            assert_eq!((after.record_count, after.compression()), (0, Some(Compression::None)));
        }
    }

    #[test]
    fn damaged_records_are_an_error() {
        let mut whole = batch(Compression::None);
        whole[HEADER_BYTES] = 3;
        let view = BatchView::parse(&whole).expect("a batch");
        let decoded = decode_records(&view, 1 << 20).expect("not compressed");
        assert!(select(&decoded, |_| true).is_err());
    }
}
