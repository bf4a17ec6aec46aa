//! One bit flipped anywhere in a segment: what is sound is served, the damaged batch never, and the error names it.

use super::tests::{Setup, TestLog, limits, setup};
use super::*;
use crate::config::LogId;
use crate::segment::{FileKind, SegmentName};
use crate::testing::batch;
use record::{Batches, HEADER_BYTES};

const BATCHES: i64 = 40;
const BATCH_BYTES: u64 = 700;
const RECORDS: i64 = 5;

/// A sealed segment of batches of several records, an index entry for every sixth.
fn sealed(setup: &Setup) -> TestLog {
    let log = TestLog::new(&setup.disk, &setup.tails);
    for index in 0..BATCHES {
        log.append(&batch(index * RECORDS, RECORDS as i32, BATCH_BYTES as usize, index));
    }
    log.roll();
    log.append(&batch(BATCHES * RECORDS, 1, 100, 0));
    log.checkpoint();
    log.forget_memory();
    log
}

/// Where one bit is flipped.
#[derive(Clone, Copy, Debug)]
struct Flip {
    batch: i64,
    byte: u64,
    bit: u8,
}

impl Flip {
    fn apply(self, file: &mut [u8]) {
        file[(self.batch as u64 * BATCH_BYTES + self.byte) as usize] ^= 1 << self.bit;
    }
}

/// A reader that begins at `from` reads on to the damage, and is told where it is.
async fn read_up_to(log: &TestLog, cache: &BlockCache, from: i64, max_bytes: usize, flip: Flip) {
    let mut next = from;
    loop {
        match log.read(cache, next, &limits(max_bytes, i64::MAX)).await {
            Ok(read) => {
                let bytes = read.to_vec();
                assert!(!bytes.is_empty(), "{flip:?} from {from}: nothing at {next}");
                for found in Batches::new(&bytes) {
                    let found = found.expect("whole batches");
                    let number = next / RECORDS;
                    let sound = batch(number * RECORDS, RECORDS as i32, BATCH_BYTES as usize, number);
                    assert!(found.bytes() == sound, "{flip:?} from {from}: what is served at {next} is another batch");
                    assert_ne!(number, flip.batch, "{flip:?} from {from}: it is served");
                    next = (number + 1) * RECORDS;
                }
            }
            Err(ReadError::Corrupt { file, position, .. }) => {
                assert_eq!(file, log.path(Offset(0), FileKind::Log), "{flip:?}");
                assert_eq!(position, flip.batch as u64 * BATCH_BYTES, "{flip:?} from {from} at {next}");
                assert_eq!(next.max(flip.batch * RECORDS), next, "{flip:?} from {from}: what is before it is served");
                return;
            }
            Err(error) => panic!("{flip:?} from {from}: {error}"),
        }
    }
}

#[test]
fn a_flipped_bit_is_named_and_what_is_before_it_is_served() {
    let setup = setup(0);
    let log = sealed(&setup);
    let (disk, cache) = (setup.disk.clone(), setup.cache.clone());
    let path = log.path(Offset(0), FileKind::Log);
    setup.shard.run(async move {
        for batch in [0, 1, 17, BATCHES - 1] {
            for byte in (0..HEADER_BYTES as u64).chain([HEADER_BYTES as u64, 300, BATCH_BYTES - 1]) {
                for bit in [0, 3, 7] {
                    let flip = Flip { batch, byte, bit };
                    disk.change(&path, |file| flip.apply(file));
                    cache.files().forget(LogId::default(), SegmentName::first(Offset(0)));
                    for from in [0, (batch * RECORDS - 3).max(0), batch * RECORDS, batch * RECORDS + 2] {
                        for max_bytes in [1, 2000, 1 << 20] {
                            read_up_to(&log, &cache, from, max_bytes, flip).await;
                        }
                    }
                    disk.change(&path, |file| flip.apply(file));
                }
            }
        }
        assert!(log.damaged.borrow().is_empty(), "the index is sound");
    });
}

/// Whoever asks again for damaged records must not cost the disk a walk through their segment each time.
#[test]
fn readers_above_the_damage_and_at_it_do_not_walk_the_segment() {
    let setup = setup(0);
    let log = TestLog::new(&setup.disk, &setup.tails);
    for index in 0..2000 {
        log.append(&batch(index, 1, 1000, index));
    }
    log.roll();
    log.append(&batch(2000, 1, 100, 0));
    log.checkpoint();
    log.forget_memory();
    let path = log.path(Offset(0), FileKind::Log);
    let (disk, cache) = (setup.disk.clone(), setup.cache.clone());
    setup.shard.run(async move {
        // Some of them are named by an index entry.
        for damaged in 1500..1512 {
            disk.change(&path, |file| file[damaged * 1000 + 16] ^= 1);
            for from in [damaged as i64, damaged as i64 + 20] {
                let before = cache.reads();
                let read = log.read(&cache, from, &limits(1000, i64::MAX)).await;
                assert_eq!(read.is_ok(), from > damaged as i64, "{from}");
                // A block of the index or two, one of the segment or two.
                assert!(cache.reads() - before <= 6, "{} reads from {from}", cache.reads() - before);
            }
            disk.change(&path, |file| file[damaged * 1000 + 16] ^= 1);
        }
    });
}
