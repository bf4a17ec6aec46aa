//! Damaged and hostile bytes: nothing panics, and memory stays in proportion to the input.
//!
//! One test, since the allocator that counts is the whole process's.

use base::{KIB, ProducerEpoch, ProducerId, Random, WallTime};
use record::{
    BatchBuilder, BatchOptions, BatchView, Compression, DecompressError, Header, ProducerStamp, RecompressLimits,
    Recompression, RecordRules, decompress, recompress,
};

mod bodies;
#[path = "../../../../fuzz/src/memory.rs"]
mod memory;

fn run_of_batches(random: &mut Random) -> Vec<u8> {
    let mut run = Vec::new();
    for _ in 0..=random.below(3) {
        let compression = Compression::ALL[random.below(5) as usize];
        let producer = ProducerStamp { producer_id: ProducerId(5), producer_epoch: ProducerEpoch(0), base_sequence: 3 };
        let producer = random.chance(1, 2).then_some(producer);
        let mut builder = BatchBuilder::new(BatchOptions { compression, producer, ..BatchOptions::default() });
        for _ in 0..=random.below(8) {
            let value = vec![random.below(256) as u8; random.below(300) as usize];
            let headers = [Header { key: b"h", value: None }, Header { key: b"i", value: Some(b"12") }];
            let headers = &headers[..random.below(3) as usize];
            let time = WallTime(1_700_000_000_000 + random.below(1000) as i64);
            builder.add(time, random.chance(1, 2).then_some(&value[..]), Some(&value), headers).unwrap();
        }
        run.extend(builder.finish().unwrap());
    }
    run
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6) as usize],
            // A header's fields are few among the bytes, so they get a share of their own.
            3 if bytes.len() >= 61 => bytes[8 + random.below(53) as usize] = random.below(256) as u8,
            4 => bytes.extend_from_within(at..),
            _ => bytes.insert(at, random.below(256) as u8),
        }
    }
}

#[test]
fn any_bytes_at_all() {
    let mut random = Random::new(0x7164_6d69_6c6c);
    for _ in 0..4000 {
        let mut bytes = run_of_batches(&mut random);
        bodies::batch(&bytes);
        mutate(&mut random, &mut bytes);
        memory::bounded(&bytes, bodies::batch_headers);
        bodies::batch(&bytes);
    }
    bombs();
}

/// Windows, tables and first buffers of a decoder (gzip takes the most, 80 KiB).
const CODEC_STATE_BYTES: usize = 128 * KIB;

/// 32 MiB in a small batch, to be stored with each codec: the memory is what the two limits allow.
fn rebuilt_bombs(from: Compression, batch: &[u8]) {
    const ALL_OF_IT: usize = 33 << 20;
    let batch = BatchView::parse(batch).unwrap();
    for codec in Compression::ALL {
        let is_small_then = matches!(codec, Compression::Gzip | Compression::Zstd);
        for (records_bytes_max, batch_bytes_max, fits) in
            [(256 * KIB, ALL_OF_IT, false), (ALL_OF_IT, 64 * KIB, is_small_then), (ALL_OF_IT, ALL_OF_IT, true)]
        {
            let limits = RecompressLimits { records_bytes_max, batch_bytes_max };
            let to = Recompression { codec, level: None };
            let (done, peak) = memory::measured(|| recompress(&batch, to, &RecordRules::default(), &limits).map(drop));
            assert_eq!(done.is_ok(), fits, "{from} to {codec} within {limits:?}: {done:?}");
            let stored_bytes_max = if records_bytes_max == ALL_OF_IT { batch_bytes_max } else { 0 };
            let allowed = 2 * records_bytes_max + 3 * stored_bytes_max + 4 * CODEC_STATE_BYTES;
            assert!(peak <= allowed, "{from} to {codec}: {peak} bytes of memory within {limits:?}");
        }
    }
}

/// Inputs that claim, or make, far more than they are.
fn bombs() {
    let zeros = vec![0; 32 << 20];
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut builder = BatchBuilder::new(BatchOptions { compression: codec, ..BatchOptions::default() });
        builder.add(WallTime(0), None, Some(&zeros), &[]).unwrap();
        let batch = builder.finish().unwrap();
        let bytes_limit = 256 * KIB;
        let ((), peak) = memory::measured(|| {
            assert_eq!(decompress(codec, &batch[61..], bytes_limit), Err(DecompressError::TooLarge { bytes_limit }));
        });
        assert!(
            peak <= 3 * bytes_limit + CODEC_STATE_BYTES,
            "{codec}: {peak} bytes of memory for a limit of {bytes_limit}"
        );
        rebuilt_bombs(codec, &batch);
    }
    let check = |codec, input: &[u8], expected| {
        let bytes_limit = 1 << 30;
        let ((), peak) =
            memory::measured(|| assert_eq!(decompress(codec, input, bytes_limit).map(drop), Err(expected)));
        assert!(peak <= CODEC_STATE_BYTES, "{codec}: {peak} bytes of memory for {} of input", input.len());
    };
    let corrupt = |codec| DecompressError::Corrupt { codec };
    // A raw snappy block, and one in xerial framing, that claim almost 1 GiB.
    check(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x03, 0x00], corrupt(Compression::Snappy));
    let framed = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6];
    let framed = [&framed[..], &[0xff, 0xff, 0xff, 0xff, 0x03, 0x00]].concat();
    check(Compression::Snappy, &framed, corrupt(Compression::Snappy));
    check(Compression::Snappy, &framed[..15], corrupt(Compression::Snappy));
    check(Compression::Snappy, &[&framed[..16], &[0xff; 4]].concat(), corrupt(Compression::Snappy));
    // A zstd frame that claims 1 TiB of content and a window to match, and holds nothing.
    let claims = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0];
    check(Compression::Zstd, &claims, corrupt(Compression::Zstd));
    for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        check(codec, b"not compressed at all", corrupt(codec));
    }
}
