//! Damaged and hostile files: nothing panics, and memory stays in proportion to the input.
//!
//! One test, since the allocator that counts is the whole process's.

use base::{LeaderEpoch, Offset, PartitionIndex, PlacementEpoch, Random, Uuid, WallTime};
use record::{BatchBuilder, BatchOptions, RunChecksum};
use storage::LogId;
use storage::journal::codec::{AppendAt, Control, FrameWriter, JOURNAL_BLOCK_BYTES, frame_at};
use storage::manifest::{LogRecord, Manifest};
use storage::segment::SegmentMeta;

mod bodies;
#[path = "../../../fuzz/src/memory.rs"]
mod memory;

/// A segment of a few batches; or index entries; or noise.
fn sample(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut offset = random.below(3) as i64;
    match random.below(4) {
        0 | 1 => {
            for _ in 0..=random.below(5) {
                let mut builder =
                    BatchBuilder::new(BatchOptions { base_offset: base::Offset(offset), ..BatchOptions::default() });
                for _ in 0..=random.below(4) {
                    builder.add(WallTime(random.below(2000) as i64), None, Some(&[7; 40]), &[]).expect("a record");
                    offset += 1;
                }
                bytes.extend(builder.finish().expect("a batch"));
            }
        }
        2 => {
            for entry in 0..random.below(600) as u32 {
                bytes.extend_from_slice(&(entry * 3).to_be_bytes());
                bytes.extend_from_slice(&(entry * 100).to_be_bytes());
            }
        }
        _ => bytes.extend((0..random.below(300)).map(|_| random.below(4) as u8)),
    }
    bytes
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(5) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6) as usize],
            3 => bytes.extend_from_within(at..),
            _ => bytes.insert(at, random.below(256) as u8),
        }
    }
}

/// Puts an append that stands apart; returns its blocks.
fn put_apart(writer: &mut FrameWriter<'_>, at: &AppendAt, batch: &[u8]) -> Vec<u8> {
    let mut blocks = vec![0; at.position as usize % JOURNAL_BLOCK_BYTES];
    blocks.extend_from_slice(batch);
    blocks.resize(blocks.len().next_multiple_of(JOURNAL_BLOCK_BYTES), 0);
    let mut checksum = RunChecksum::default();
    checksum.add(batch.first_chunk().expect("a header"));
    writer.append_apart(at, batch.len(), checksum.value(), None);
    blocks
}

/// Frames of a journal with entries of every kind, most of which fit together.
fn journal_sample(random: &mut Random) -> Vec<u8> {
    let log = LogId { topic_id: Uuid([1; 16]), partition: PartitionIndex(0) };
    let mut bytes = Vec::new();
    let (mut end, mut position, mut segment) = (0, 0, 0);
    for sequence in 1..=1 + random.below(4) {
        let mut space = vec![0; 64 << 10];
        let mut blocks = Vec::new();
        let mut writer = FrameWriter::new(&mut space);
        let create = Control::Create { log, placement: PlacementEpoch(1), created: WallTime(1), topic: "t" };
        writer.control(&create.encode());
        for _ in 0..random.below(6) {
            let control = match random.below(8) {
                0 => Control::Roll { log, segment: Offset(end), sealed_bytes: position, created: WallTime(2) },
                1 => Control::StartMoved { log, start: Offset(end / 2) },
                2 => Control::EpochAdopted { log, epoch: LeaderEpoch(sequence as i32), start: Offset(end) },
                3 => Control::Truncate { log, end: Offset(end), segment: SegmentMeta::new(Offset(end), WallTime(3)) },
                _ => {
                    let mut builder =
                        BatchBuilder::new(BatchOptions { base_offset: Offset(end), ..BatchOptions::default() });
                    builder.add(WallTime(5), None, Some(&[7; 30]), &[]).expect("a record");
                    let batch = builder.finish().expect("a batch");
                    let (first, last) = (Offset(end), Offset(end));
                    let at = AppendAt { log, segment: Offset(segment), position, first, last };
                    if random.chance(1, 2) {
                        writer.append(&at, &[&batch]);
                    } else {
                        blocks.extend(put_apart(&mut writer, &at, &batch));
                    }
                    end += 1;
                    position += batch.len() as u64;
                    continue;
                }
            };
            if matches!(control, Control::Roll { .. } | Control::Truncate { .. }) && position > 0 {
                (segment, position) = (end, 0);
            }
            writer.control(&control.encode());
        }
        let len = writer.finish(9, sequence, sequence - 1, 1);
        bytes.extend_from_slice(&space[..len]);
        bytes.extend(blocks);
    }
    // Either the file, or the entries and the blocks of its first frame behind their counts.
    if random.chance(1, 2) {
        let (head, body) = frame_at(&bytes, 9).expect("a frame");
        let mut entries = vec![head.entry_count as u8, head.blocks as u8];
        entries.extend_from_slice(&body[..head.payload_bytes as usize]);
        entries.extend_from_slice(&body[body.len() - head.blocks as usize * JOURNAL_BLOCK_BYTES..]);
        return entries;
    }
    bytes
}

fn manifest_sample(random: &mut Random) -> Vec<u8> {
    let log = |partition| LogRecord {
        id: LogId { topic_id: Uuid([1; 16]), partition: PartitionIndex(partition) },
        topic: "orders".into(),
        segments: vec![SegmentMeta::new(Offset(0), WallTime(1))],
        ..LogRecord::default()
    };
    if random.chance(1, 2) {
        return log(3).encode();
    }
    Manifest { logs: (0..random.below(5) as i32).map(log).collect(), ..Manifest::default() }.encode()
}

#[test]
fn any_bytes_at_all() {
    let mut random = Random::new(0x7365_676d_656e_7401);
    type Sample = fn(&mut Random) -> Vec<u8>;
    type Body = fn(&[u8]);
    let cases: [(Sample, Body); 3] =
        [(sample, bodies::segment), (journal_sample, bodies::journal), (manifest_sample, bodies::manifest)];
    for (sample, body) in cases {
        for _ in 0..4000 {
            let mut bytes = sample(&mut random);
            mutate(&mut random, &mut bytes);
            memory::bounded(&bytes, body);
        }
    }
}
