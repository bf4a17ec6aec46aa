use super::super::entries::kind;
use super::super::frame::block_part;
use super::*;
use crate::segment::SegmentMeta;
use base::{LeaderEpoch, PartitionIndex, PlacementEpoch, Random, Uuid, WallTime};
use proptest::prelude::*;
use record::{BatchBuilder, BatchOptions, RunChecksum};

fn log(number: i32) -> LogId {
    LogId { topic_id: Uuid([3; 16]), partition: PartitionIndex(number) }
}

fn at(first: i64, last: i64, position: u64) -> AppendAt {
    AppendAt { log: log(1), segment: Offset(0), position, first: Offset(first), last: Offset(last) }
}

fn one_of_each() -> Vec<Entry<'static>> {
    let segment = SegmentMeta { end_offset: Offset(9), bytes: 700, ..SegmentMeta::new(Offset(4), WallTime(17)) };
    let compacted = SegmentMeta { sealed: true, revision: 3, ..segment };
    let controls = [
        Control::Create { log: log(0), placement: PlacementEpoch(4), created: WallTime(5), topic: "orders" },
        Control::Remove { log: log(0) },
        Control::Truncate { log: log(0), end: Offset(10), segment },
        Control::StartMoved { log: log(0), start: Offset(8) },
        Control::EpochAdopted { log: log(0), epoch: LeaderEpoch(3), start: Offset(8) },
        Control::Placed { record: b"any record" },
        Control::Roll { log: log(0), segment: Offset(12), sealed_bytes: 900, created: WallTime(6) },
        Control::Released { log: log(0), placement: PlacementEpoch(5) },
        Control::Compacted { log: log(0), segment: compacted, cleaned_to: Offset(7) },
    ];
    let data = [
        Entry::Append { at: at(10, 12, 8100), bytes: b"three batches" },
        Entry::BlockPrefix { log: log(1), segment: Offset(0), position: 8192, bytes: b"prefix" },
    ];
    data.into_iter().chain(controls.map(Entry::Control)).collect()
}

fn frame(entries: &[Entry<'_>], salt: u64, sequence: u64) -> Vec<u8> {
    let mut space = vec![0xaa; 64 * 1024];
    let mut writer = FrameWriter::new(&mut space);
    for entry in entries {
        writer.copy(entry);
    }
    let end = writer.finish(salt, sequence, sequence - 1, 40);
    space.truncate(end);
    space
}

#[test]
fn entries_round_trip() {
    let entries = one_of_each();
    let bytes = frame(&entries, 77, 5);
    assert_eq!(bytes.len() % JOURNAL_BLOCK_BYTES, 0);
    let (head, payload) = frame_at(&bytes, 77).expect("a frame");
    assert_eq!((head.sequence, head.durable_sequence, head.manifest_version), (5, 4, 40));
    assert_eq!(head.frame_bytes(), bytes.len());
    let read: Result<Vec<_>, _> = Entries::new(&head, payload).collect();
    assert_eq!(read.as_deref(), Ok(entries.as_slice()));
    assert!(frame_at(&bytes, 78).is_none(), "another generation");
}

#[test]
fn parts_and_overheads_are_what_they_say() {
    let mut space = vec![0; JOURNAL_BLOCK_BYTES];
    let mut writer = FrameWriter::new(&mut space);
    let room = writer.room();
    writer.append(&at(0, 0, 0), &[b"he", b"", b"llo"]);
    assert_eq!(room - writer.room(), APPEND_OVERHEAD_BYTES + 5);
    let room = writer.room();
    writer.block_prefix(log(0), Offset(0), 4096, &[b"xy"]);
    assert_eq!(room - writer.room(), PREFIX_OVERHEAD_BYTES + 2);
    let room = writer.room();
    let remove = Control::Remove { log: log(0) }.encode();
    writer.control(&remove);
    assert_eq!(room - writer.room(), remove.entry_bytes());
}

/// Every single flipped bit of the head or of an entry makes the frame no frame, or leaves it as it was (the padding).
#[test]
fn every_flipped_bit_is_seen() {
    let entries = one_of_each();
    let bytes = frame(&entries, 77, 5);
    let (head, _) = frame_at(&bytes, 77).expect("a frame");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let in_padding = bit / 8 >= FRAME_HEAD_BYTES + head.payload_bytes as usize;
        assert_eq!(frame_at(&damaged, 77).is_some(), in_padding, "bit {bit}");
    }
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    let body = |control: Control<'_>| control.encode();
    let raw = |kind: u8, body: Vec<u8>| EncodedControl { kind, body };
    let segment = SegmentMeta::new(Offset(4), WallTime(17));
    let malformed = |kind| Err(EntryError::Malformed { kind });
    for (what, entry, expected) in [
        ("the reserved kind", raw(kind::REF, vec![0; 40]), Err(EntryError::UnknownKind { kind: 10 })),
        ("a kind of a later release", raw(200, vec![]), Err(EntryError::UnknownKind { kind: 200 })),
        ("too short", raw(kind::REMOVE, vec![0; 19]), malformed(kind::REMOVE)),
        ("too long", raw(kind::REMOVE, vec![0; 21]), malformed(kind::REMOVE)),
        (
            "a path for a topic",
            body(Control::Create { log: log(0), placement: PlacementEpoch(1), created: WallTime(0), topic: "../x" }),
            malformed(kind::CREATE),
        ),
        ("an end below its segment", body(Control::Truncate { log: log(0), end: Offset(3), segment }), malformed(5)),
        (
            "an empty segment from compaction",
            body(Control::Compacted {
                log: log(0),
                segment: SegmentMeta { sealed: true, revision: 1, ..segment },
                cleaned_to: Offset(0),
            }),
            malformed(kind::COMPACTED),
        ),
        ("a negative start", body(Control::StartMoved { log: log(0), start: Offset(-1) }), malformed(6)),
        (
            "no epoch",
            body(Control::EpochAdopted { log: log(0), epoch: LeaderEpoch(-1), start: Offset(0) }),
            malformed(7),
        ),
        ("an append of nothing", raw(kind::APPEND, vec![0; 52]), malformed(kind::APPEND)),
        ("a prefix of a whole block", raw(kind::BLOCK_PREFIX, vec![0; 36 + 4096]), malformed(kind::BLOCK_PREFIX)),
    ] {
        let mut space = vec![0; 16 * 1024];
        let mut writer = FrameWriter::new(&mut space);
        writer.control(&entry);
        writer.finish(1, 1, 0, 0);
        let (head, payload) = frame_at(&space, 1).expect("a frame");
        let read: Result<Vec<_>, _> = Entries::new(&head, payload).collect();
        assert_eq!(read.map(|_| ()), expected, "{what}");
    }
}

fn batch(offset: i64, bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { base_offset: Offset(offset), ..BatchOptions::default() });
    builder.add(WallTime(5), None, Some(&vec![7; bytes]), &[]).expect("a record");
    builder.finish().expect("a batch")
}

/// A frame with appends that stand apart, of `runs` of batches at positions, between others; and those appends.
fn apart_frame(runs: &[(u64, Vec<Vec<u8>>)]) -> (Vec<u8>, Vec<(AppendAt, Vec<u8>)>) {
    let mut space = vec![0xaa; 64 * 1024];
    let (mut blocks, mut appended) = (Vec::new(), Vec::new());
    let mut writer = FrameWriter::new(&mut space);
    writer.copy(&one_of_each()[0]);
    for (position, batches) in runs {
        let mut checksum = RunChecksum::default();
        batches.iter().for_each(|batch| checksum.add(batch.first_chunk().expect("a header")));
        let (at, bytes) = (at(10, 12, *position), batches.concat());
        // What a segment's block held before is there, too, and means nothing.
        let mut run = vec![0x55; block_part(*position)];
        run.extend_from_slice(&bytes);
        let whole = run.len() - run.len() % JOURNAL_BLOCK_BYTES;
        let last = Some(&run[whole..]).filter(|last| !last.is_empty());
        blocks.push(Ok(run[..whole].to_vec()));
        blocks.extend(writer.append_apart(&at, bytes.len(), checksum.value(), last).map(Err));
        appended.push((at, bytes));
    }
    writer.copy(&one_of_each()[2]);
    let end = writer.finish(77, 5, 4, 40);
    let mut frame = space[..end].to_vec();
    for part in blocks {
        frame.extend_from_slice(part.as_ref().map_or_else(|range| &space[range.clone()], Vec::as_slice));
    }
    (frame, appended)
}

fn runs() -> Vec<(u64, Vec<Vec<u8>>)> {
    vec![
        (8192, vec![batch(10, 5000), batch(11, 100), batch(12, 3000)]),
        (4096 * 5 - 10, vec![batch(10, 100)]),
        (30, vec![batch(10, 20)]),
        (4096 * 7 + 1, vec![batch(10, 4096 * 2)]),
    ]
}

#[test]
fn appends_that_stand_apart_are_read_like_others_and_found_where_they_are() {
    let (frame, appended) = apart_frame(&runs());
    let (head, body) = frame_at(&frame, 77).expect("a frame");
    assert_eq!((head.frame_bytes(), body.len()), (frame.len(), head.body_bytes()));
    let mut entries = Entries::new(&head, body);
    assert_eq!(entries.next(), Some(Ok(one_of_each()[0].clone())));
    for (at, expected) in &appended {
        assert_eq!(entries.next(), Some(Ok(Entry::Append { at: *at, bytes: expected })));
        let end = entries.bytes_end();
        assert_eq!(&body[end - expected.len()..end], expected);
    }
    assert_eq!(entries.next(), Some(Ok(one_of_each()[2].clone())));
    assert_eq!(entries.next(), None);
    // Copied elsewhere they stand among the entries, and need no more room than they had.
    let mut space = vec![0; head.frame_bytes()];
    let mut writer = FrameWriter::new(&mut space);
    Entries::new(&head, body).for_each(|entry| writer.copy(&entry.expect("an entry")));
    writer.finish(1, 1, 0, 0);
    let (copied, copied_body) = frame_at(&space, 1).expect("a frame");
    assert!(Entries::new(&copied, copied_body).eq(Entries::new(&head, body)));
}

#[test]
fn every_flipped_bit_of_an_append_that_stands_apart_is_seen() {
    let (frame, appended) = apart_frame(&runs());
    let (head, body) = frame_at(&frame, 77).expect("a frame");
    let mut meaning = vec![false; frame.len()];
    meaning[..FRAME_HEAD_BYTES + head.payload_bytes as usize].fill(true);
    let mut entries = Entries::new(&head, body);
    let mut apart = appended.iter();
    while let Some(Ok(entry)) = entries.next() {
        if let Entry::Append { bytes, .. } = entry
            && bytes.len() > 20
        {
            assert_eq!(bytes, apart.next().expect("as many").1);
            let end = FRAME_HEAD_BYTES + entries.bytes_end();
            meaning[end - bytes.len()..end].fill(true);
        }
    }
    assert!(apart.next().is_none());
    for (at, means) in meaning.into_iter().enumerate() {
        let mut damaged = frame.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(frame_at(&damaged, 77).is_none(), means, "byte {at}");
    }
    for short in [frame.len() - 1, frame.len() - JOURNAL_BLOCK_BYTES, FRAME_HEAD_BYTES] {
        assert!(frame_at(&frame[..short], 77).is_none(), "cut to {short}");
    }
}

#[test]
fn batches_in_another_order_are_not_those_that_were_written() {
    let (one, other) = (batch(10, 100), batch(11, 100));
    let (first, _) = apart_frame(&[(0, vec![one.clone(), other.clone()])]);
    let (second, _) = apart_frame(&[(0, vec![other, one])]);
    let blocks_at = first.len() - JOURNAL_BLOCK_BYTES;
    let mixed = [&first[..blocks_at], &second[blocks_at..]].concat();
    assert!(frame_at(&first, 77).is_some() && frame_at(&second, 77).is_some());
    assert!(frame_at(&mixed, 77).is_none());
}

#[test]
fn room_is_what_a_frame_takes() {
    for (position, batches) in runs() {
        let bytes: usize = batches.iter().map(Vec::len).sum();
        let room = EntryRoom::of_append_apart(bytes, position);
        let mut space = vec![0; room.frame_bytes()];
        let mut writer = FrameWriter::new(&mut space);
        assert!(writer.has_room(room));
        let larger = EntryRoom { blocks: room.blocks + 1, ..room };
        assert!(!writer.has_room(larger) && !writer.has_room(EntryRoom { entry_bytes: 4096, ..room }));
        writer.append_apart(&at(10, 12, position), bytes, 0, Some(b"any"));
        assert!(!writer.has_room(EntryRoom { entry_bytes: 1, blocks: 1 }));
        let blocks = writer.blocks();
        assert_eq!(writer.finish(1, 1, 0, 0) + blocks * JOURNAL_BLOCK_BYTES, room.frame_bytes());
    }
    let apart = |bytes| EntryRoom::of_append_apart(bytes, 4000).and_prefix(4000).frame_bytes();
    for bytes in 62..20_000 {
        let inline = EntryRoom::of_append(bytes - 1).and_prefix(4000).frame_bytes();
        assert!(inline <= apart(bytes), "an entry that grows past the bound is charged more, not less");
    }
}

#[test]
fn a_wrong_count_is_refused() {
    let entries = one_of_each();
    let bytes = frame(&entries, 1, 1);
    let (head, payload) = frame_at(&bytes, 1).expect("a frame");
    for entry_count in [0, head.entry_count - 1, head.entry_count + 1, u32::MAX] {
        let read: Result<Vec<_>, _> = Entries::new(&FrameHead { entry_count, ..head }, payload).collect();
        assert_eq!(read.map(|_| ()), Err(EntryError::Count), "{entry_count}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn hostile_payloads_never_panic(payload in proptest::collection::vec(any::<u8>(), 0..512), entry_count in 0..40u32) {
        let head = FrameHead {
            salt: 0, sequence: 1, durable_sequence: 0, manifest_version: 0, entry_count, payload_bytes: payload.len() as u32, blocks: 0,
        };
        let read = Entries::new(&head, &payload).count();
        prop_assert!(read <= payload.len() / ENTRY_HEAD_BYTES + 1);
    }

    /// A good frame with bytes changed and the checksum made right again: what a defect of ours would look like.
    #[test]
    fn entries_with_wrong_fields_never_panic(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let mut bytes = frame(&one_of_each(), 1, 1);
        for _ in 0..1 + random.below(4) {
            let at = FRAME_HEAD_BYTES + random.below(600) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let head = FrameHead::parse(&bytes).expect("the head is whole");
        let payload = &bytes[FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.payload_bytes as usize];
        let _ = Entries::new(&head, payload).count();
    }
}
