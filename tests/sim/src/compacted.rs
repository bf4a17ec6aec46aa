//! What must be true of a log whose records compaction takes away: it is checked record by record, not batch by batch.
//!
//! What was written is known; what is found must be part of it, each record where it was written, and of each key the last record must
//! be there. As with whole batches ([`crate::batches`]) the judge reads with eyes of its own.

use std::collections::{BTreeMap, BTreeSet};

use record::{Compression, crc_of, decompress};

use crate::batches::{HEADER_BYTES, Mark, RECORDS_BYTES_MAX, Stamp, codec, field};

/// A record as far as it is told from others: its key, and its value by length and beginning; none for a tombstone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    pub key: Vec<u8>,
    pub value: Option<(usize, [u8; 8])>,
}

impl Row {
    #[must_use]
    pub fn new(key: &[u8], value: Option<&[u8]>) -> Self {
        let value = value.map(|value| {
            let mut beginning = [0; 8];
            let len = value.len().min(8);
            beginning[..len].copy_from_slice(&value[..len]);
            (value.len(), beginning)
        });
        Self { key: key.to_vec(), value }
    }
}

/// A batch of which records may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remains {
    pub base: i64,
    pub last: i64,
    pub epoch: i32,
    pub stamp: Option<Stamp>,
    /// By offset.
    pub rows: BTreeMap<i64, Row>,
}

/// Splits what a read returned into batches, and those into records.
///
/// # Errors
/// It is not a run of whole ones, a checksum is wrong, or records do not fit their batch.
pub fn split(mut bytes: &[u8]) -> Result<Vec<Remains>, String> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < HEADER_BYTES {
            return Err(format!("{} bytes after the last whole batch", bytes.len()));
        }
        let len = i32::from_be_bytes(field(bytes, 8)) as i64 + 12;
        let len = usize::try_from(len).ok().filter(|len| (HEADER_BYTES..=bytes.len()).contains(len));
        let Some(len) = len.filter(|_| bytes[16] == 2) else { return Err("no batch of magic 2".to_owned()) };
        found.push(remains(&bytes[..len])?);
        bytes = &bytes[len..];
    }
    Ok(found)
}

fn remains(batch: &[u8]) -> Result<Remains, String> {
    if crc_of(batch) != u32::from_be_bytes(field(batch, 17)) {
        return Err("a batch whose checksum is wrong".to_owned());
    }
    let base = i64::from_be_bytes(field(batch, 0));
    let last = base + i64::from(i32::from_be_bytes(field(batch, 23)));
    let producer = i64::from_be_bytes(field(batch, 43));
    let stamp = (producer >= 0).then(|| Stamp {
        producer,
        epoch: i16::from_be_bytes(field(batch, 51)),
        sequence: i32::from_be_bytes(field(batch, 53)),
    });
    let code = codec(batch);
    let compression = Compression::from_code(code).ok_or_else(|| format!("a batch with codec {code}"))?;
    let body = decompress(compression, &batch[HEADER_BYTES..], RECORDS_BYTES_MAX).map_err(|error| error.to_string())?;
    let mut rows = BTreeMap::new();
    let mut rest = &body[..];
    for _ in 0..i32::from_be_bytes(field(batch, 57)) {
        let (delta, row) = take_row(&mut rest).ok_or("a record that does not decode")?;
        let offset = base + delta;
        if !(base..=last).contains(&offset) || rows.last_key_value().is_some_and(|(before, _)| *before >= offset) {
            return Err(format!("a record at offset {offset} in a batch of {base}..={last}"));
        }
        rows.insert(offset, row);
    }
    if !rest.is_empty() {
        return Err(format!("{} bytes after the last record", rest.len()));
    }
    Ok(Remains { base, last, epoch: i32::from_be_bytes(field(batch, 12)), stamp, rows })
}

/// The offset delta of a record, and what it says.
fn take_row(rest: &mut &[u8]) -> Option<(i64, Row)> {
    let len = usize::try_from(take_number(rest)?).ok()?;
    let (mut record, after) = rest.split_at_checked(len)?;
    *rest = after;
    record = record.get(1..)?;
    let _timestamp_delta = take_number(&mut record)?;
    let offset_delta = take_number(&mut record)?;
    let key = take_bytes(&mut record)?;
    let value = take_bytes(&mut record)?;
    // The judge's records have no headers.
    (record == [0]).then(|| Some((offset_delta, Row::new(key?, value))))?
}

#[expect(clippy::option_option, reason = "what does not decode and null are two things")]
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(len) = usize::try_from(take_number(rest)?) else { return Some(None) };
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(Some(bytes))
}

/// A zigzag number in groups of seven bits.
fn take_number(rest: &mut &[u8]) -> Option<i64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
        shift += 7;
    }
}

/// A batch as it was written.
#[derive(Clone, Debug)]
pub struct Written {
    pub mark: Mark,
    pub rows: Vec<Row>,
}

/// What a log that is compacted may be held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Tombstones may be gone.
    pub tombstones_go: bool,
    /// The last batch of each producer is there, or its header.
    pub producers_stay: bool,
}

/// What a whole log came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Missing {
    pub records: usize,
    pub tombstones: usize,
    pub emptied_batches: usize,
}

/// Holds what was found from `start` to `upto` to what was written from there to the end of the log, `written` in order. A record may be
/// missing where a later one has its key; the last one of a key may only where it is a tombstone that may go.
///
/// # Errors
/// What is wrong, in words.
pub fn check(written: &[Written], start: i64, upto: i64, found: &[Remains], rules: Rules) -> Result<Missing, String> {
    let (mut missing, mut at) = (Missing::default(), 0);
    let mut there: BTreeMap<i64, &Row> = BTreeMap::new();
    for remains in found {
        let same = |written: &Written| {
            let mark = &written.mark;
            (mark.base, mark.last, mark.epoch, mark.stamp) == (remains.base, remains.last, remains.epoch, remains.stamp)
        };
        // Batches may have gone, and come in order.
        let index = written[at..].iter().position(same);
        let index = index.ok_or_else(|| format!("{remains:?} was not written there"))? + at;
        at = index + 1;
        for (offset, row) in &remains.rows {
            if written[index].rows.get((offset - remains.base) as usize) != Some(row) {
                return Err(format!("{row:?} was not written at offset {offset}"));
            }
            there.insert(*offset, row);
        }
        missing.emptied_batches += usize::from(remains.rows.is_empty());
    }
    let bases: BTreeSet<i64> = found.iter().map(|remains| remains.base).collect();
    let mut later = BTreeSet::new();
    let mut producers = BTreeSet::new();
    for Written { mark, rows } in written.iter().rev() {
        if let Some(stamp) = mark.stamp
            && producers.insert(stamp.producer)
            && rules.producers_stay
            && (start..upto).contains(&mark.base)
            && !bases.contains(&mark.base)
        {
            return Err(format!("the last batch of a producer is gone: {mark:?}"));
        }
        for (index, row) in rows.iter().enumerate().rev() {
            let offset = mark.base + index as i64;
            let is_last = later.insert(&row.key);
            if !(start..upto).contains(&offset) || there.contains_key(&offset) {
                continue;
            }
            if is_last && !(row.value.is_none() && rules.tombstones_go) {
                return Err(format!("the last record of a key is gone: {row:?} at offset {offset}"));
            }
            missing.records += 1;
            missing.tombstones += usize::from(is_last);
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batches::{Recipe, placed};
    use base::{LeaderEpoch, WallTime};
    use record::{BatchView, decode_records, retain, select};

    const ALL: Rules = Rules { tombstones_go: false, producers_stay: true };

    fn recipe(tag: u64, keys: u32) -> Recipe {
        let stamp = Some(Stamp { producer: 5, epoch: 0, sequence: tag as i32 * 4 });
        Recipe { tag, records: 4, value_bytes: 40, stamp, timestamp: WallTime(5), keys }
    }

    /// Three batches of four records over three keys, as they are written and as they are stored.
    fn log() -> (Vec<Written>, Vec<Vec<u8>>) {
        let recipes = [1, 2, 3].map(|tag| recipe(tag, 3));
        let place = |(index, recipe): (usize, &Recipe)| {
            let mut bytes = recipe.build();
            bytes[..8].copy_from_slice(&(index as i64 * 4).to_be_bytes());
            bytes[12..16].copy_from_slice(&1i32.to_be_bytes());
            bytes
        };
        let written = |(index, recipe): (usize, &Recipe)| Written {
            mark: placed(&recipe.build(), index as i64 * 4, LeaderEpoch(1)),
            rows: recipe.rows(),
        };
        let all = || recipes.iter().enumerate();
        (all().map(written).collect(), all().map(place).collect())
    }

    /// The log without some of its records.
    fn without(stored: &[Vec<u8>], gone: &[i64]) -> Vec<Remains> {
        let keep = |bytes: &Vec<u8>| {
            let batch = BatchView::parse(bytes).expect("whole");
            let decoded = decode_records(&batch, 1 << 20).expect("sound");
            let selection = select(&decoded, |record| !gone.contains(&record.offset.0)).expect("sound");
            if selection.kept() == 0 {
                record::emptied(batch.header())
            } else {
                retain(&decoded, &selection, None).expect("sound")
            }
        };
        split(&stored.iter().flat_map(keep).collect::<Vec<u8>>()).expect("sound")
    }

    #[test]
    fn what_may_be_missing() {
        let (written, stored) = log();
        let rows: Vec<&Row> = written.iter().flat_map(|batch| &batch.rows).collect();
        let is_last = |at: usize| rows[at + 1..].iter().all(|later| later.key != rows[at].key);
        let check = |gone: &[i64], rules| check(&written, 0, 12, &without(&stored, gone), rules);
        assert_eq!(check(&[], ALL), Ok(Missing::default()));
        for (at, row) in rows.iter().enumerate() {
            let gone = check(&[at as i64], ALL);
            assert_eq!(gone.is_err(), is_last(at), "{at}: {gone:?}");
            let gone = check(&[at as i64], Rules { tombstones_go: true, ..ALL });
            assert_eq!(gone.is_err(), is_last(at) && row.value.is_some(), "{at}: {gone:?}");
        }
        let replaced: Vec<i64> = (0..rows.len()).filter(|&at| !is_last(at)).map(|at| at as i64).collect();
        let missing = check(&replaced, ALL).expect("all of it is replaced");
        assert_eq!(missing.records, replaced.len());
    }

    #[test]
    fn what_was_not_written_there() {
        let (written, stored) = log();
        let found = without(&stored, &[]);
        let check = |found: &[Remains]| check(&written, 0, 12, found, ALL).is_ok();
        assert!(check(&found));
        let swapped = [found[1].clone(), found[0].clone(), found[2].clone()];
        assert!(!check(&swapped), "out of order");
        let mut moved = found.clone();
        let row = moved[0].rows.pop_first().expect("four").1;
        moved[0].rows.insert(0, Row { key: b"other".to_vec(), ..row });
        assert!(!check(&moved), "another record");
        assert!(!check(&found[..2]), "the last batch of the producer is gone");
        let mut damaged = stored[0].clone();
        damaged[90] ^= 1;
        assert!(split(&damaged).is_err());
    }
}
