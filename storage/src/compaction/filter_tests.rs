use super::*;
use record::{BatchBuilder, BatchHeader, BatchOptions, Compression, ProducerStamp};

use base::{ProducerEpoch, ProducerId};

const NOW: WallTime = WallTime(10_000);
const RETENTION_MS: i64 = 500;

/// Records as text, one after another from offset 10 on: `a1` has key `a` and value `1`, `a-` is a tombstone, `=1` has no key, and `.` is
/// an offset without a record.
fn batch_with(records: &str, options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset: Offset(10), ..options });
    for record in records.split_whitespace() {
        let (key, value) = record.split_at(1);
        match key {
            "." => builder.leave_gap(),
            _ => {
                let key = (key != "=").then_some(key.as_bytes());
                let value = (value != "-").then_some(value.as_bytes());
                builder.add(WallTime(77), key, value, &[]).expect("small");
            }
        }
    }
    builder.finish().expect("not empty")
}

fn batch(records: &str) -> Vec<u8> {
    batch_with(records, BatchOptions::default())
}

fn view(bytes: &[u8]) -> BatchView<'_> {
    BatchView::parse(bytes).expect("whole")
}

/// The same as text.
fn text(bytes: &[u8]) -> String {
    let batch = view(bytes);
    assert!(batch.has_valid_crc());
    let decoded = decode_records(&batch, 1 << 20).expect("sound");
    let (mut words, mut next) = (Vec::new(), batch.base_offset().0);
    for record in decoded.records() {
        let record = record.expect("sound");
        words.extend((next..record.offset.0).map(|_| ".".to_owned()));
        let part = |bytes: Option<&[u8]>, none: &str| {
            bytes.map_or(none.to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        words.push(part(record.key, "=") + &part(record.value, "-"));
        next = record.offset.0 + 1;
    }
    words.extend((next..=batch.last_offset().0).map(|_| ".".to_owned()));
    words.join(" ")
}

/// What a pass knows that found `keys`, each with its last offset.
fn cleaning(keys: &[(&str, i64)], upto: i64) -> Cleaning {
    let mut map = KeyMap::new(1 << 10, 100, [1, 2]);
    for (key, offset) in keys {
        assert!(map.put(key.as_bytes(), Offset(*offset)));
    }
    Cleaning {
        keys: map,
        upto: Offset(upto),
        now: NOW,
        delete_retention_ms: RETENTION_MS,
        producer_ends: BTreeSet::new(),
        expanded_bytes_max: 1 << 20,
    }
}

/// What becomes of a batch, as text, and its delete horizon.
fn fate(cleaning: &Cleaning, bytes: &[u8], ends_segment: bool) -> (String, Option<i64>) {
    match cleaning.fate(&view(bytes), ends_segment).expect("sound") {
        Fate::Stays => ("stays".to_owned(), view(bytes).header().delete_horizon().map(|at| at.0)),
        Fate::Becomes(new) => (text(&new), view(&new).header().delete_horizon().map(|at| at.0)),
        Fate::Goes => ("goes".to_owned(), None),
    }
}

#[test]
fn of_each_key_the_last_record_stays() {
    const NEW: Option<i64> = Some(NOW.0 + RETENTION_MS);
    type Row = (&'static str, &'static str, &'static [(&'static str, i64)], i64, &'static str, Option<i64>);
    let table: [Row; 12] = [
        ("no key is dirty", "a1 b2", &[], 100, "stays", None),
        ("this one is the last", "a1 b2", &[("a", 10), ("b", 11)], 100, "stays", None),
        ("one is replaced", "a1 b2 c3", &[("b", 50)], 100, "a1 . c3", None),
        ("within the batch", "a1 a2 a3", &[("a", 12)], 100, ". . a3", None),
        ("all are replaced", "a1 b2", &[("a", 50), ("b", 51)], 100, "goes", None),
        ("without a key", "=1 a2", &[], 100, ". a2", None),
        ("a tombstone is met", "a1 b-", &[], 100, "a1 b-", NEW),
        ("and what it deletes goes", "a1 a-", &[("a", 11)], 100, ". a-", NEW),
        ("a replaced tombstone needs no horizon", "a1 b-", &[("b", 50)], 100, "a1 .", None),
        ("nothing at or above the end is looked at", "a1 a2 =3", &[("a", 50)], 11, ". a2 =3", None),
        ("a batch has one horizon, and not all of this one was met", "a- b-", &[], 11, "stays", None),
        ("a batch there", "a1 =2", &[("a", 50)], 10, "stays", None),
    ];
    for compression in Compression::ALL {
        for (name, records, keys, upto, expected, horizon) in table {
            let bytes = batch_with(records, BatchOptions { compression, ..BatchOptions::default() });
            let found = fate(&cleaning(keys, upto), &bytes, false);
            assert_eq!(found, (expected.to_owned(), horizon), "{name}, {compression}");
        }
    }
}

#[test]
fn a_tombstone_goes_when_its_horizon_has_passed() {
    let met = {
        let cleaning = cleaning(&[], 100);
        let Ok(Fate::Becomes(met)) = cleaning.fate(&view(&batch("a- b1 c-")), false) else { panic!("a horizon") };
        met
    };
    let horizon = NOW.0 + RETENTION_MS;
    for (now, keys, expected) in [
        (horizon - 1, &[][..], ("stays".to_owned(), Some(horizon))),
        (horizon, &[], (". b1 .".to_owned(), Some(horizon))),
        (horizon, &[("b", 50)], ("goes".to_owned(), None)),
        (horizon - 1, &[("c", 50)], ("a- b1 .".to_owned(), Some(horizon))),
    ] {
        let cleaning = Cleaning { now: WallTime(now), ..cleaning(keys, 100) };
        assert_eq!(fate(&cleaning, &met, false), expected, "at {now}");
    }
}

#[test]
fn the_last_of_a_producer_and_of_a_segment_stay_without_records() {
    let stamp = ProducerStamp { producer_id: ProducerId(7), producer_epoch: ProducerEpoch(1), base_sequence: 5 };
    let bytes = batch_with("a1 b2", BatchOptions { producer: Some(stamp), ..BatchOptions::default() });
    let gone = cleaning(&[("a", 50), ("b", 51)], 100);
    let of_producer = Cleaning { producer_ends: [Offset(11)].into(), ..gone.clone() };
    let of_another = Cleaning { producer_ends: [Offset(10), Offset(12)].into(), ..gone.clone() };
    assert_eq!(fate(&gone, &bytes, false).0, "goes");
    assert_eq!(fate(&of_another, &bytes, false).0, "goes");
    for (cleaning, ends_segment) in [(&gone, true), (&of_producer, false)] {
        let Ok(Fate::Becomes(empty)) = cleaning.fate(&view(&bytes), ends_segment) else { panic!("it stays") };
        assert_eq!(text(&empty), ". .");
        let header = view(&empty).header().to_owned();
        assert_eq!((header.producer_id, header.last_sequence()), (ProducerId(7), 6));
        // Next time: as it is, or not at all.
        assert_eq!(fate(cleaning, &empty, ends_segment).0, "stays");
        assert_eq!(fate(&of_another, &empty, false).0, "goes");
    }
}

#[test]
fn markers_stay_and_transactions_end_it() {
    let stamp = ProducerStamp { producer_id: ProducerId(7), producer_epoch: ProducerEpoch(1), base_sequence: -1 };
    let options = BatchOptions { producer: Some(stamp), transactional: true, ..BatchOptions::default() };
    let marker = batch_with("a1", BatchOptions { control: true, ..options });
    let data = batch_with("a1", options);
    let cleaning = cleaning(&[("a", 50)], 100);
    assert_eq!(fate(&cleaning, &marker, false).0, "stays");
    let refused = Uncleanable::Transaction { offset: Offset(10) };
    assert_eq!(cleaning.fate(&view(&data), false), Err(refused.clone()));
    let mut keys = KeyMap::new(1 << 10, 100, [0, 0]);
    assert_eq!(note_batch(&mut keys, &view(&marker), Offset(0), 1 << 20), Ok(None));
    assert_eq!(note_batch(&mut keys, &view(&data), Offset(0), 1 << 20), Err(refused));
    assert_eq!(keys.keys(), 0);
}

#[test]
fn damaged_records_and_bombs_are_refused() {
    let mut damaged = batch("a1 b2");
    damaged[record::HEADER_BYTES] = 3;
    let zeros = "x".repeat(5000);
    let bomb =
        batch_with(&format!("a{zeros}"), BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    for bytes in [damaged, bomb] {
        let cleaning = Cleaning { expanded_bytes_max: 4096, ..cleaning(&[], 100) };
        assert!(matches!(cleaning.fate(&view(&bytes), false), Err(Uncleanable::Records { offset: Offset(10), .. })));
        let mut keys = KeyMap::new(1 << 10, 100, [0, 0]);
        assert!(note_batch(&mut keys, &view(&bytes), Offset(0), 4096).is_err());
    }
}

#[test]
fn keys_are_noted_up_to_where_the_map_is_full() {
    // Keys noted before, records of a batch from offset 10 on, noted from there; the first offset that is not known.
    for (name, before, records, from, expected) in [
        ("all fit", "", "a1 b2 a3 =4 c-", 0, None),
        ("just", "x", "a1 b2 c3", 0, None),
        ("known ones need no room", "a b c", "a1 b2 c3 x4 a5", 0, None),
        ("full: not begun", "a b", "c1 d2 e3", 0, Some(10)),
        ("alone too much", "", "a1 b2 c3 d4 e5", 0, Some(14)),
        ("from within, alone too much", "", "a1 b2 c3 d4 e5 f6", 11, Some(15)),
        ("below", "a b c d", "e1 f2", 12, None),
        ("without a key", "a b c d", "=1 =2", 0, None),
    ] {
        let mut keys = KeyMap::new(24 * 5, 100, [3, 4]);
        assert_eq!(keys.keys_max(), 4);
        for key in before.split_whitespace() {
            assert!(keys.put(key.as_bytes(), Offset(1)));
        }
        let full = note_batch(&mut keys, &view(&batch(records)), Offset(from), 1 << 20);
        assert_eq!(full, Ok(expected.map(Offset)), "{name}");
    }
    let empty = emptied(&BatchHeader::parse(&batch("a1")).expect("one"));
    assert_eq!(note_batch(&mut KeyMap::new(0, 0, [0, 0]), &view(&empty), Offset(0), 0), Ok(None));
}
