//! Record batches as the judge sees them: made from a few numbers, told apart by a hash, read with eyes of its own.
//!
//! The judge does not read batches with the code under test: positions in the header are written down here once more, from
//! Kafka's description of magic 2. Only the codecs and the checksum are the library's own, which tests hold against another
//! implementation.

use std::borrow::Cow;

use base::{LeaderEpoch, ProducerEpoch, ProducerId, WallTime};
use record::{BatchBuilder, BatchOptions, Compression, ProducerStamp, crc_of, decompress};

use crate::compacted::Row;

pub(crate) const HEADER_BYTES: usize = 61;
/// No batch here has so many bytes of records.
pub(crate) const RECORDS_BYTES_MAX: usize = 4 << 20;

/// An idempotent producer's stamp on one batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    pub producer: i64,
    pub epoch: i16,
    pub sequence: i32,
}

/// One batch in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub base: i64,
    pub last: i64,
    pub bytes: u32,
    /// The epoch of the leader that put it there.
    pub epoch: i32,
    pub stamp: Option<Stamp>,
    /// How it is stored, as the header numbers it.
    pub codec: u8,
    /// A hash over what no broker may change: all bytes behind offset, length and epoch of the batch without compression.
    pub content: u64,
}

impl Mark {
    pub fn records(&self) -> i64 {
        self.last - self.base + 1
    }
}

/// What a batch is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Decides the content: two batches of different tags differ in every record.
    pub tag: u64,
    pub records: u32,
    pub value_bytes: u32,
    pub stamp: Option<Stamp>,
    pub timestamp: WallTime,
    /// Its records have so many keys, which other batches have too, and some are tombstones; 0: one key that no other batch has.
    pub keys: u32,
}

impl Recipe {
    /// The batch as a client sends it: offset 0, no epoch.
    pub fn build(&self) -> Vec<u8> {
        self.build_with(Compression::None)
    }

    /// The same, compressed.
    pub fn build_with(&self, compression: Compression) -> Vec<u8> {
        let producer = self.stamp.map(|stamp| ProducerStamp {
            producer_id: ProducerId(stamp.producer),
            producer_epoch: ProducerEpoch(stamp.epoch),
            base_sequence: stamp.sequence,
        });
        let mut builder = BatchBuilder::new(BatchOptions { producer, compression, ..BatchOptions::default() });
        self.each_record(|key, value| builder.add(self.timestamp, Some(key), value, &[]).expect("small"));
        builder.finish().expect("not empty, and small")
    }

    /// Its records as the judge tells them apart.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        self.each_record(|key, value| rows.push(Row::new(key, value)));
        rows
    }

    fn each_record(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut value = vec![0; self.value_bytes as usize];
        for record in 0..self.records {
            let tag = self.tag.wrapping_add(u64::from(record));
            fill(&mut value, tag);
            match self.keys {
                0 => each(&self.tag.to_be_bytes(), Some(&value[..])),
                keys => {
                    let any = scramble(tag);
                    let is_tombstone = any >> 32 & 7 == 0;
                    each(&((any as u32) % keys).to_be_bytes(), (!is_tombstone).then_some(&value[..]));
                }
            }
        }
    }
}

fn scramble(tag: u64) -> u64 {
    let state = (tag ^ tag >> 31).wrapping_mul(0x9fb2_1c65_1e98_df25);
    (state ^ state >> 29).wrapping_mul(0xd129_0d3f_5b0c_8a55) >> 8
}

fn fill(bytes: &mut [u8], tag: u64) {
    let mut state = tag ^ 0x9e37_79b9_7f4a_7c15;
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_mul(0xd129_0d3f_5b0c_8a55).wrapping_add(0x1405_7b7e_f767_814f);
        chunk.copy_from_slice(&state.to_be_bytes()[..chunk.len()]);
    }
}

/// What a sent batch is once the log has given it an offset and the leader's epoch.
pub fn placed(sent: &[u8], base: i64, epoch: LeaderEpoch) -> Mark {
    let mut bytes = sent.to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&epoch.0.to_be_bytes());
    mark(&bytes).expect("a client's own batch is sound")
}

/// Reads one whole batch.
fn mark(bytes: &[u8]) -> Result<Mark, String> {
    let base = i64::from_be_bytes(field(bytes, 0));
    let producer = i64::from_be_bytes(field(bytes, 43));
    let stamp = (producer >= 0).then(|| Stamp {
        producer,
        epoch: i16::from_be_bytes(field(bytes, 51)),
        sequence: i32::from_be_bytes(field(bytes, 53)),
    });
    let last = base + i64::from(i32::from_be_bytes(field(bytes, 23)));
    let epoch = i32::from_be_bytes(field(bytes, 12));
    let content = hash(&plain(bytes)?[16..]);
    Ok(Mark { base, last, bytes: bytes.len() as u32, epoch, stamp, codec: codec(bytes), content })
}

/// See [`Mark::content`].
pub fn content(batch: &[u8]) -> u64 {
    hash(&plain(batch).expect("a client's own batch is sound")[16..])
}

pub(crate) fn codec(batch: &[u8]) -> u8 {
    batch[22] & 7
}

/// The batch as it would be without compression.
fn plain(batch: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let codec = match codec(batch) {
        0 => return Ok(Cow::Borrowed(batch)),
        code => Compression::from_code(code).ok_or_else(|| format!("a batch with codec {code}"))?,
    };
    if crc_of(batch) != u32::from_be_bytes(field(batch, 17)) {
        return Err(format!("a batch with {codec} whose checksum is wrong"));
    }
    let records = decompress(codec, &batch[HEADER_BYTES..], RECORDS_BYTES_MAX).map_err(|error| error.to_string())?;
    let mut plain = [&batch[..HEADER_BYTES], &records].concat();
    plain[22] &= !7;
    let crc = crc_of(&plain);
    plain[17..21].copy_from_slice(&crc.to_be_bytes());
    Ok(Cow::Owned(plain))
}

pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is the array's")
}

/// Splits what a read returned into batches; an error when it is not a run of whole ones.
pub fn split(mut bytes: &[u8]) -> Result<Vec<Mark>, String> {
    let mut marks = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < HEADER_BYTES {
            return Err(format!("{} bytes after the last whole batch", bytes.len()));
        }
        let len = i32::from_be_bytes(field(bytes, 8));
        let len =
            usize::try_from(len).ok().map(|len| len + 12).filter(|len| (HEADER_BYTES..=bytes.len()).contains(len));
        let Some(len) = len else {
            return Err(format!("a batch that says it is {} bytes long", i32::from_be_bytes(field(bytes, 8))));
        };
        if bytes[16] != 2 {
            return Err(format!("a batch of magic {}", bytes[16]));
        }
        marks.push(mark(&bytes[..len])?);
        bytes = &bytes[len..];
    }
    Ok(marks)
}

/// A fast hash; the eight-byte steps keep it cheap beside the copying it checks.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        state = (state.rotate_left(23) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }
    for &byte in chunks.remainder() {
        state = (state.rotate_left(23) ^ u64::from(byte)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }
    state ^ state >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let stamp = Some(Stamp { producer: 7, epoch: 2, sequence: 30 });
        let recipe = Recipe { tag: 1, records: 3, value_bytes: 100, stamp, timestamp: WallTime(5), keys: 0 };
        let sent = recipe.build();
        let first = placed(&sent, 10, LeaderEpoch(4));
        assert_eq!((first.base, first.last, first.stamp, first.bytes as usize), (10, 12, stamp, sent.len()));
        let other = placed(&Recipe { tag: 2, ..recipe }.build(), 10, LeaderEpoch(4));
        assert_eq!(first.bytes, other.bytes);
        assert_ne!(first.content, other.content);
        assert_eq!(first.content, content(&sent));
        let mut run = sent.clone();
        run[..8].copy_from_slice(&10i64.to_be_bytes());
        run[12..16].copy_from_slice(&4i32.to_be_bytes());
        assert_eq!(split(&run), Ok(vec![first]));
        assert!(split(&run[..run.len() - 1]).is_err());
    }

    #[test]
    fn compression_leaves_the_content() {
        let recipe = Recipe { tag: 1, records: 3, value_bytes: 100, stamp: None, timestamp: WallTime(5), keys: 0 };
        for codec in Compression::ALL {
            let mut sent = recipe.build_with(codec);
            assert_eq!(content(&sent), content(&recipe.build()), "{codec}");
            let mark = placed(&sent, 7, LeaderEpoch(0));
            assert_eq!((mark.codec, mark.bytes as usize), (codec as u8, sent.len()));
            let last = sent.len() - 1;
            sent[last] ^= 1;
            assert_eq!(split(&sent).is_err(), codec != Compression::None, "{codec}: a flipped bit");
        }
    }
}
