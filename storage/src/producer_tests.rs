//! The producer rules as a table, and against a model that remembers every batch ever taken.

use super::*;
use proptest::prelude::*;

const LIMITS: ProducerLimits = ProducerLimits { expiration_ms: 1000, producers_max: 100 };

fn batch(id: i64, epoch: i16, first: i32, records: i32) -> ProducerBatch {
    ProducerBatch {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
        first_sequence: first,
        last_sequence: first.wrapping_add(records - 1) & i32::MAX,
    }
}

/// A log that has taken `batches` of producer 1, `(epoch, first sequence, records)`, one after another from offset 0.
fn table(batches: &[(i16, i32, i32)]) -> ProducerTable {
    let (mut table, mut offset) = (ProducerTable::default(), 0);
    for &(epoch, first, records) in batches {
        let placed = Placed {
            base_offset: Offset(offset),
            last_offset: Offset(offset + i64::from(records) - 1),
            timestamp: WallTime(100 + offset),
        };
        table.note(&batch(1, epoch, first, records), &placed, WallTime(offset), &LIMITS);
        offset += i64::from(records);
    }
    table
}

#[derive(Debug, PartialEq)]
enum Is {
    Append,
    Duplicate(i64, i64, i64),
    Fenced(i16),
    Gap(i32),
}

fn verdict(table: &ProducerTable, of: &ProducerBatch) -> Is {
    match table.check(of) {
        Ok(Verdict::Append) => Is::Append,
        Ok(Verdict::Duplicate(at)) => Is::Duplicate(at.base_offset.0, at.last_offset.0, at.timestamp.0),
        Err(ProducerError::Fenced { current, .. }) => Is::Fenced(current.0),
        Err(ProducerError::OutOfOrder { expected, .. }) => Is::Gap(expected),
    }
}

#[test]
fn the_rules() {
    let seven = [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1), (0, 6, 1)];
    for (taken, sent, expected) in [
        // No state: anything goes.
        (&[][..], (0, 0, 3), Is::Append),
        (&[], (7, 55, 3), Is::Append),
        // In order, repeated, with a gap.
        (&[(0, 0, 3)], (0, 3, 2), Is::Append),
        (&[(0, 0, 3)], (0, 0, 3), Is::Duplicate(0, 2, 100)),
        (&[(0, 0, 3)], (0, 4, 2), Is::Gap(3)),
        // Neither a whole duplicate nor the next.
        (&[(0, 0, 3)], (0, 0, 2), Is::Gap(3)),
        (&[(0, 0, 3)], (0, 1, 3), Is::Gap(3)),
        // Five are remembered.
        (&seven, (0, 2, 1), Is::Duplicate(2, 2, 102)),
        (&seven, (0, 1, 1), Is::Gap(7)),
        // Epochs.
        (&[(3, 0, 3)], (2, 3, 1), Is::Fenced(3)),
        (&[(3, 0, 3)], (2, 0, 3), Is::Fenced(3)),
        (&[(3, 0, 3)], (4, 0, 1), Is::Append),
        (&[(3, 0, 3)], (4, 3, 1), Is::Gap(0)),
        (&[(3, 0, 3), (4, 0, 2)], (4, 2, 1), Is::Append),
        (&[(3, 0, 3), (4, 0, 2)], (4, 3, 1), Is::Gap(2)),
        // An epoch that a control batch brought: nothing written under it yet.
        (&[(3, 0, 3), (4, -1, 1)], (4, 0, 1), Is::Append),
        (&[(3, 0, 3), (4, -1, 1)], (4, 3, 1), Is::Gap(0)),
        // Sequences wrap, between batches and inside one.
        (&[(0, i32::MAX, 1)], (0, 0, 5), Is::Append),
        (&[(0, i32::MAX, 1)], (0, 1, 5), Is::Gap(0)),
        (&[(0, i32::MAX - 1, 4)], (0, 2, 1), Is::Append),
        (&[(0, i32::MAX - 1, 4)], (0, i32::MAX - 1, 4), Is::Duplicate(0, 3, 100)),
        // Bytes from a peer that make no sense are refused, not believed.
        (&[(0, 0, 3)], (0, -1, 1), Is::Gap(3)),
    ] {
        let sent_batch = batch(1, sent.0, sent.1, sent.2);
        assert_eq!(verdict(&table(taken), &sent_batch), expected, "{sent:?} after {taken:?}");
    }
}

#[test]
fn idle_producers_expire_and_the_bound_evicts_the_idlest() {
    let mut table = ProducerTable::default();
    let limits = ProducerLimits { expiration_ms: 1000, producers_max: 16 };
    for id in 0..16 {
        table.note(&batch(id, 0, 0, 1), &Placed::default(), WallTime(id * 10), &limits);
    }
    // Producer 0 writes again, so 1 is the idlest.
    table.note(&batch(0, 0, 1, 1), &Placed::default(), WallTime(500), &limits);
    table.note(&batch(99, 0, 0, 1), &Placed::default(), WallTime(501), &limits);
    assert_eq!(table.len(), 16);
    assert_eq!(verdict(&table, &batch(1, 0, 9, 1)), Is::Append, "1 is forgotten");
    assert_eq!(verdict(&table, &batch(0, 0, 9, 1)), Is::Gap(2));
    assert_eq!(table.expire(WallTime(1149), &limits), 13, "last seen at 20 to 140");
    assert_eq!(table.len(), 3);
    // A clock that went back expires nobody; nor does one at the end of time panic.
    assert_eq!(table.expire(WallTime(i64::MIN), &limits), 0);
    assert_eq!(table.expire(WallTime(i64::MAX), &limits), 3);

    let none = ProducerLimits { expiration_ms: 1000, producers_max: 0 };
    table.note(&batch(5, 0, 0, 1), &Placed::default(), WallTime(0), &none);
    table.note(&batch(6, 0, 0, 1), &Placed::default(), WallTime(0), &none);
    assert_eq!(table.len(), 1, "the one that is writing stays");
}

#[test]
fn truncation_says_when_it_lost_something() {
    for (taken, end, exact, next) in [
        (&[(0, 0, 2), (0, 2, 2)][..], 4, true, 4),
        (&[(0, 0, 2), (0, 2, 2)], 2, true, 2),
        (&[(0, 0, 2), (0, 2, 2)], 3, true, 2),
        // Nothing is left of it: it may have had an older epoch.
        (&[(0, 0, 2), (1, 0, 2)], 2, false, 77),
        (&[(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1)], 4, false, 4),
    ] {
        let mut table = table(taken);
        assert_eq!(table.truncate(Offset(end)), exact, "{taken:?} cut at {end}");
        assert_eq!(verdict(&table, &batch(1, 1.min(taken[taken.len() - 1].0), next, 1)), Is::Append);
    }
}

#[test]
fn hostile_snapshots() {
    let good = table(&[(0, 0, 2), (0, 2, 2)]).encode();
    assert!(ProducerTable::decode(&good).is_ok());
    for end in 0..good.len() {
        assert!(ProducerTable::decode(&good[..end]).is_err(), "cut at {end}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(ProducerTable::decode(&longer), Err(SnapshotError::Malformed));
    let mut newer = good.clone();
    newer[0] = 2;
    assert_eq!(ProducerTable::decode(&newer), Err(SnapshotError::Version { version: 2 }));
    // A count of four thousand million allocates nothing before the bytes run out.
    assert_eq!(ProducerTable::decode(&[1, 255, 255, 255, 255]), Err(SnapshotError::Malformed));
}

/// Remembers every batch ever taken; decides by looking through all of them.
#[derive(Default)]
struct Model {
    taken: Vec<(ProducerBatch, Placed)>,
}

impl Model {
    fn check(&self, sent: &ProducerBatch) -> Is {
        let of_producer: Vec<_> = self.taken.iter().filter(|(batch, _)| batch.id == sent.id).collect();
        let Some((last, _)) = of_producer.last() else {
            return Is::Append;
        };
        if sent.epoch < last.epoch {
            return Is::Fenced(last.epoch.0);
        }
        if sent.epoch > last.epoch {
            return if sent.first_sequence == 0 { Is::Append } else { Is::Gap(0) };
        }
        let of_epoch: Vec<_> = of_producer.iter().filter(|(batch, _)| batch.epoch == sent.epoch).collect();
        for (batch, placed) in of_epoch.iter().rev().take(BATCHES_RETAINED) {
            if batch == sent {
                return Is::Duplicate(placed.base_offset.0, placed.last_offset.0, placed.timestamp.0);
            }
        }
        let next = ((i64::from(last.last_sequence) + 1) % (1 << 31)) as i32;
        if sent.first_sequence == next { Is::Append } else { Is::Gap(next) }
    }
}

fn sent() -> impl Strategy<Value = (i64, i16, i32, i32)> {
    // `first` is relative to what the producer would send next, so that most batches are near it.
    (0..3i64, -1..2i16, prop_oneof![4 => Just(0), 3 => -8..1i32, 1 => -2..4i32], 1..3i32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agrees_with_a_full_history(batches in proptest::collection::vec(sent(), 1..80), start in prop_oneof![Just(0), Just(i32::MAX - 6)]) {
        let (mut table, mut model) = (ProducerTable::default(), Model::default());
        let mut next = std::collections::BTreeMap::new();
        let mut offset = 0;
        for (id, epoch_step, relative, records) in batches {
            let (epoch, sequence) = next.entry(id).or_insert((0i16, start));
            let epoch_sent = (*epoch + epoch_step).max(0);
            let base = if epoch_sent > *epoch { 0 } else { *sequence };
            let first = base.wrapping_add(relative) & i32::MAX;
            let sent = batch(id, epoch_sent, first, records);
            let expected = model.check(&sent);
            let got = verdict(&table, &sent);
            prop_assert_eq!(&got, &expected);
            if got == Is::Append {
                let placed = Placed {
                    base_offset: Offset(offset),
                    last_offset: Offset(offset + i64::from(records) - 1),
                    timestamp: WallTime(offset * 3),
                };
                offset += i64::from(records);
                table.note(&sent, &placed, WallTime(offset), &LIMITS);
                model.taken.push((sent, placed));
                *epoch = epoch_sent;
                *sequence = sent.last_sequence.wrapping_add(1) & i32::MAX;
            }
            let decoded = ProducerTable::decode(&table.encode());
            prop_assert_eq!(decoded.as_ref(), Ok(&table));
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ProducerTable::decode(&bytes);
    }
}
