use super::*;
use base::{LeaderEpoch, PartitionIndex, Random, Uuid, WallTime};
use proptest::prelude::*;

fn record(random: &mut Random, number: i32) -> LogRecord {
    let mut segments = Vec::new();
    let mut base = random.below(100) as i64;
    let start = Offset(base);
    for _ in 0..random.below(4) {
        let end = base + 1 + random.below(50) as i64;
        let meta = SegmentMeta::new(Offset(base), WallTime(5));
        segments.push(SegmentMeta { end_offset: Offset(end), bytes: random.below(1 << 20) + 1, sealed: true, ..meta });
        base = end;
    }
    segments.push(SegmentMeta::new(Offset(base), WallTime(9)));
    let epochs = (0..random.below(3) as i32)
        .map(|index| EpochStart { epoch: LeaderEpoch(index * 2), start: Offset(i64::from(index) * 10) })
        .collect();
    LogRecord {
        id: LogId { topic_id: Uuid([7; 16]), partition: PartitionIndex(number) },
        topic: format!("topic-{}", random.below(1000)),
        placement: PlacementEpoch(random.below(9)),
        offline: random.chance(1, 5),
        start,
        end: Offset(base),
        high_watermark: Offset(base),
        epochs,
        segments,
        producers: (0..random.below(40)).map(|_| random.next_u64() as u8).collect(),
        cleaned_to: Offset(random.below(2) as i64 * random.below(base as u64 + 1) as i64),
    }
}

fn manifest(seed: u64) -> Manifest {
    let mut random = Random::new(seed);
    let head = ManifestHead {
        shard: ShardId(3),
        version: random.next_u64(),
        salt: random.next_u64(),
        replay_from: JournalPosition { sequence: random.next_u64(), file: 2, offset: 4096 },
    };
    let logs = (0..random.below(6) as i32).map(|number| record(&mut random, number)).collect();
    Manifest { head, logs }
}

#[test]
fn round_trips_and_ignores_what_follows() {
    for seed in 0..100 {
        let written = manifest(seed);
        let mut bytes = written.encode();
        assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(&written));
        // An older, longer manifest was here before.
        bytes.extend_from_slice(&[0x55; 5000]);
        assert_eq!(Manifest::decode(&bytes), Ok(written));
    }
}

#[test]
fn every_torn_end_and_flipped_bit_is_seen() {
    let bytes = manifest(5).encode();
    for len in (0..bytes.len()).step_by(7) {
        let at = if len < HEAD_BYTES { 0 } else { PAYLOAD_AT as u64 };
        assert_eq!(Manifest::decode(&bytes[..len]), Err(ManifestError::Invalid { at }), "{len}");
    }
    let covered = (0..HEAD_BYTES).chain(PAYLOAD_AT..bytes.len());
    for at in covered {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let from = if at < HEAD_BYTES { 0 } else { PAYLOAD_AT as u64 };
        assert_eq!(Manifest::decode(&damaged), Err(ManifestError::Invalid { at: from }), "byte {at}");
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let mut bytes = manifest(5).encode();
    bytes[8..12].copy_from_slice(&9u32.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..HEAD_BYTES]);
    bytes[4..8].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(Manifest::decode(&bytes), Err(ManifestError::Format { format: 9 }));
}

#[test]
fn records_that_no_log_can_have_are_refused() {
    type Damage = fn(&mut LogRecord);
    let damages: [(&str, Damage); 9] = [
        ("start above end", |log| log.start = Offset(log.end.0 + 1)),
        ("negative start", |log| log.start = Offset(-1)),
        ("a path for a topic", |log| log.topic = "a/../b".into()),
        ("negative partition", |log| log.id.partition = PartitionIndex(-1)),
        ("a sealed active segment", |log| log.segments.last_mut().unwrap().sealed = true),
        ("an unsealed one before it", |log| log.segments[0].sealed = false),
        ("segments out of order", |log| log.segments.reverse()),
        ("a segment beyond the end", |log| log.end = Offset(0)),
        ("epochs out of order", |log| {
            log.epochs = vec![EpochStart { epoch: LeaderEpoch(2), start: Offset(0) }; 2];
        }),
    ];
    let mut random = Random::new(8);
    let good = std::iter::repeat_with(|| record(&mut random, 1))
        .find(|log| log.segments.len() > 2 && log.start.0 > 0)
        .expect("one of them");
    assert_eq!(LogRecord::decode(&good.encode()), Ok(good.clone()));
    for (what, damage) in damages {
        let mut log = good.clone();
        damage(&mut log);
        assert_eq!(LogRecord::decode(&log.encode()), Err(ManifestError::Malformed), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn hostile_records_never_panic(seed in any::<u64>(), flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        let mut bytes = record(&mut Random::new(seed), 1).encode();
        for (at, value) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        let _ = LogRecord::decode(&bytes);
    }

    #[test]
    fn hostile_manifests_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
        let _ = LogRecord::decode(&bytes);
    }
}
