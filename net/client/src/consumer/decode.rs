//! From the bytes of a fetch response to records: whole batches only, checked, from the wanted offset on.
//!
//! Owner: whoever reads. Pure. A broker sends whole batches, so the first may begin before the offset that was asked for and the
//! last may be cut off; the one is skipped into and the other is asked for again.
//!
//! Invariants: nothing is yielded whose CRC is wrong; offsets only go up; decompression is bounded; no bytes panic.

use std::fmt;

use base::Offset;
use record::{BatchError, BatchHeader, BatchView, Batches, Record, Records};
use shard::Slice;

/// Bytes that are not what a log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The offset that was to be read.
    pub offset: Offset,
    pub what: String,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the records from offset {} on can't be read: {}", self.offset, self.what)
    }
}

/// How far a run of batches goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Bytes of whole batches.
    pub bytes: usize,
    /// The offset after the last of them.
    pub next_offset: Offset,
}

/// Looks at the headers alone.
pub(super) fn scan(bytes: &[u8], from: Offset) -> Result<Run, Corrupt> {
    let corrupt = |offset, what: String| Err(Corrupt { offset, what });
    let (mut batches, mut next_offset) = (Batches::new(bytes), from);
    loop {
        match batches.next() {
            None => break,
            Some(Ok(batch)) => {
                let next = batch.header().next_offset();
                if next <= batch.base_offset() || batch.base_offset().0 < 0 {
                    return corrupt(next_offset, "a batch with impossible offsets".into());
                }
                // A batch that lies wholly before the wanted offset is legal, and passed over.
                next_offset = next_offset.max(next);
            }
            Some(Err(BatchError::Truncated { .. })) => break,
            Some(Err(error)) => return corrupt(next_offset, error.to_string()),
        }
    }
    let run = Run { bytes: batches.position(), next_offset };
    if run.bytes == 0 && !bytes.is_empty() {
        return corrupt(from, "the first batch is cut off".into());
    }
    Ok(run)
}

/// A batch of records that was checked.
#[derive(Clone, Debug)]
pub struct RecordBatch {
    header: BatchHeader,
    body: Body,
    /// Records before this offset are not wanted.
    from: Offset,
}

#[derive(Clone, Debug)]
enum Body {
    /// As received, uncompressed.
    Received(Slice),
    Inflated(Vec<u8>),
}

impl RecordBatch {
    /// The batch at the front of `bytes`, and how many bytes it has. `None` for one that has no records for a reader: a control
    /// batch, or one that lies before `from`.
    pub(super) fn take(
        bytes: &Slice,
        from: Offset,
        bytes_limit: usize,
    ) -> Result<(Option<Self>, BatchHeader), Corrupt> {
        let corrupt = |what: &dyn fmt::Display| Corrupt { offset: from, what: what.to_string() };
        let view = BatchView::parse(bytes).map_err(|error| corrupt(&error))?;
        let header = *view.header();
        if !view.has_valid_crc() {
            return Err(corrupt(&"the checksum of a batch is wrong"));
        }
        if header.is_control() || header.last_offset() < from {
            return Ok((None, header));
        }
        let Some(codec) = header.compression() else {
            return Err(corrupt(&format_args!("compression {} does not exist", header.attributes.compression_code())));
        };
        let body = match record::decompress(codec, view.body(), bytes_limit).map_err(|error| corrupt(&error))? {
            std::borrow::Cow::Borrowed(_) => Body::Received(bytes.slice(record::HEADER_BYTES..header.size_bytes())),
            std::borrow::Cow::Owned(inflated) => Body::Inflated(inflated),
        };
        let batch = Self { header, body, from };
        batch.check().map_err(|what| corrupt(&what))?;
        Ok((Some(batch), header))
    }

    /// Walks all records once, so that later walks need not fail.
    fn check(&self) -> Result<(), String> {
        let mut next = self.header.base_offset;
        for record in Records::new(&self.header, self.body()) {
            let offset = record.map_err(|error| error.to_string())?.offset;
            if offset < next || offset > self.header.last_offset() {
                return Err(format!("a record with offset {offset} where {next} or more was due"));
            }
            next = Offset(offset.0.saturating_add(1));
        }
        Ok(())
    }

    fn body(&self) -> &[u8] {
        match &self.body {
            Body::Received(bytes) => bytes,
            Body::Inflated(bytes) => bytes,
        }
    }

    /// The wanted records, in the order of their offsets.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let records = Records::new(&self.header, self.body());
        records.map(|record| record.expect("all records were checked")).filter(|record| record.offset >= self.from)
    }

    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::WallTime;
    use record::{BatchBuilder, BatchOptions, Compression};

    fn batch(base_offset: i64, records: usize, compression: Compression) -> Vec<u8> {
        let options = BatchOptions { base_offset: Offset(base_offset), compression, ..Default::default() };
        let mut builder = BatchBuilder::new(options);
        for index in 0..records {
            builder.add(WallTime(index as i64), None, Some(b"value"), &[]).expect("small");
        }
        builder.finish().expect("has records")
    }

    #[test]
    fn a_run_ends_with_its_last_whole_batch() {
        let run: Vec<u8> = [batch(10, 5, Compression::None), batch(15, 2, Compression::Lz4)].concat();
        let first = batch(10, 5, Compression::None).len();
        // bytes, wanted offset, bytes and next offset of the run
        let table = [(run.len(), 10, run.len(), 17), (run.len() - 1, 12, first, 15), (run.len(), 99, run.len(), 99)];
        for (len, from, bytes, next) in table {
            let expected = Run { bytes, next_offset: Offset(next) };
            assert_eq!(scan(&run[..len], Offset(from)), Ok(expected), "{len} bytes");
        }
        assert_eq!(scan(&[], Offset(3)), Ok(Run { bytes: 0, next_offset: Offset(3) }));
        assert!(scan(&run[..first - 1], Offset(10)).is_err(), "nothing whole, so nothing would ever come");
    }

    #[test]
    fn records_before_the_wanted_offset_are_skipped() {
        for compression in Compression::ALL {
            let bytes = Slice::from_vec(batch(10, 5, compression));
            for from in [0, 10, 12, 14] {
                let (taken, header) = RecordBatch::take(&bytes, Offset(from), 1 << 20).expect("sound");
                let offsets: Vec<i64> = taken.expect("has records").records().map(|record| record.offset.0).collect();
                assert_eq!(offsets, (from.max(10)..15).collect::<Vec<_>>());
                assert_eq!(header.size_bytes(), bytes.len());
            }
            let (taken, _) = RecordBatch::take(&bytes, Offset(15), 1 << 20).expect("sound");
            assert!(taken.is_none());
        }
    }

    #[test]
    fn damage_is_an_error_wherever_it_is() {
        let sound = batch(10, 5, Compression::None);
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                // What stands before the checksum (offset, length, epoch) is not covered by it.
                let Ok(run) = scan(&bytes, Offset(10)) else { continue };
                let run = Slice::from_vec(bytes).slice(..run.bytes);
                let taken = RecordBatch::take(&run, Offset(10), 1 << 20);
                assert!(at < 17 || taken.is_err(), "byte {at}");
            }
        }
    }
}
