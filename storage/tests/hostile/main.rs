//! Damaged and hostile files: nothing panics, and memory stays in proportion to the input.
//!
//! One test, since the allocator that counts is the whole process's.

use base::{Random, WallTime};
use record::{BatchBuilder, BatchOptions};

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

#[test]
fn any_bytes_at_all() {
    let mut random = Random::new(0x7365_676d_656e_7401);
    for _ in 0..4000 {
        let mut bytes = sample(&mut random);
        mutate(&mut random, &mut bytes);
        memory::bounded(&bytes, bodies::segment);
    }
}
