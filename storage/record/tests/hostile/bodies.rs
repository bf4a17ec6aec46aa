//! What must hold for any bytes at all: run here over seeded mutations, and by the fuzz target `batch`.

use base::{LeaderEpoch, Offset, WallTime};
use record::{
    BatchMut, BatchView, Batches, Compression, DecodeError, ProduceLimits, RecompressLimits, Recompression,
    RecordRules, check_records, crc_of, decode_records, find_max_timestamp, find_timestamp, recompress,
    validate_for_produce,
};

/// Expanding stops here, whatever the bytes claim.
const BYTES_LIMIT: usize = 1 << 18;

/// The whole library on `bytes`: nothing panics, and what was accepted keeps its promises.
pub fn batch(bytes: &[u8]) {
    batch_headers(bytes);
    for batch in Batches::new(bytes).flatten() {
        look_into(&batch);
    }
    validate(bytes);
    // Most damage stops at the checksum; with that put right it gets further.
    let mut bytes = bytes.to_vec();
    if let Ok(mut batch) = BatchMut::parse(&mut bytes) {
        batch.set_base_offset(Offset(0));
        let size = batch.header().size_bytes();
        let crc = crc_of(&bytes[..size]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        validate(&bytes[..size]);
    }
}

/// Headers, checks on Produce, and the records of uncompressed batches: the part that allocates nothing.
pub fn batch_headers(bytes: &[u8]) {
    let mut walk = Batches::new(bytes);
    let mut total = 0;
    while let Some(Ok(batch)) = walk.next() {
        total += batch.bytes().len();
        assert_eq!(walk.position(), total);
        if batch.header().attributes.compression_code() == 0 {
            count_records(&batch);
        }
    }
    assert_eq!(walk.rest().len(), bytes.len() - total);
    assert!(walk.next().is_none(), "an error ends the walk");
    let _ = validate_for_produce(bytes, &ProduceLimits { message_bytes_max: 1 << 20, zstd_allowed: true });
}

fn count_records(batch: &BatchView<'_>) {
    let decoded = decode_records(batch, 0).expect("uncompressed records are lent, whatever the limit");
    let mut sound = 0;
    let mut failed = false;
    for record in decoded.records() {
        assert!(!failed, "an error ends the walk");
        match record {
            Ok(record) => {
                sound += 1;
                assert_eq!(record.headers.len(), record.headers.count());
            }
            Err(_) => failed = true,
        }
    }
    assert!(sound <= batch.body().len(), "a record takes at least a byte");
    assert!(failed || sound == usize::try_from(batch.header().record_count).expect("a negative count is an error"));
}

fn look_into(batch: &BatchView<'_>) {
    match decode_records(batch, BYTES_LIMIT) {
        Ok(decoded) => {
            let compressed = batch.header().attributes.compression_code() != 0;
            assert!(!compressed || decoded.body().len() <= BYTES_LIMIT);
            let last = decoded.records().last();
            assert!(last.is_some() || batch.header().record_count == 0);
        }
        Err(DecodeError::Record(_)) => panic!("decoding looks at no record"),
        Err(_) => {}
    }
    let at = WallTime(1_700_000_000_000);
    if let Ok(Some(found)) = find_timestamp(batch, at, batch.base_offset(), BYTES_LIMIT) {
        assert!(found.timestamp >= at && found.offset >= batch.base_offset());
    }
    if let Ok(Some(found)) = find_max_timestamp(batch, BYTES_LIMIT) {
        assert_eq!(found.timestamp, batch.header().max_timestamp);
    }
    let _ = check_records(batch, &RecordRules { key_required: true, timestamps: None }, BYTES_LIMIT);
    store_otherwise(batch);
}

/// Whatever is rebuilt is a sound batch within its bounds, with the same records.
fn store_otherwise(batch: &BatchView<'_>) {
    const BATCH_BYTES_MAX: usize = 1 << 14;
    let to = Recompression { codec: Compression::ALL[batch.bytes().len() % Compression::ALL.len()], level: None };
    let limits = RecompressLimits { records_bytes_max: BYTES_LIMIT, batch_bytes_max: BATCH_BYTES_MAX };
    let Ok(rebuilt) = recompress(batch, to, &RecordRules::default(), &limits) else { return };
    assert!(rebuilt.len() <= BATCH_BYTES_MAX);
    let rebuilt = BatchView::parse(&rebuilt).expect("what is rebuilt is a batch");
    assert!(rebuilt.has_valid_crc());
    let (before, after) = (decode_records(batch, BYTES_LIMIT), decode_records(&rebuilt, BYTES_LIMIT));
    assert_eq!(before.expect("read before").body(), after.expect("just written").body());
}

fn validate(bytes: &[u8]) {
    let limits = ProduceLimits { message_bytes_max: 1 << 20, zstd_allowed: true };
    let Ok(summary) = validate_for_produce(bytes, &limits) else { return };
    let view = BatchView::parse(bytes).expect("a batch that was accepted is one");
    assert!(view.has_valid_crc());
    assert_eq!(summary.size_bytes, bytes.len());
    assert_eq!(view.last_offset().0, i64::from(summary.record_count) - 1);
    let placed = view.placed(Offset(1 << 40), LeaderEpoch(3), Some(WallTime(9)));
    let stored = [&placed.encode()[..], view.body()].concat();
    let stored = BatchView::parse(&stored).expect("a placed batch is a batch");
    assert!(stored.has_valid_crc());
    assert_eq!(stored.header(), &placed);
}
