//! Records that tests make up and compare.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use record::{BatchView, Compression, decode_records};

/// Batches of tests expand to no more than this.
pub const BYTES_LIMIT: usize = 1 << 22;

/// A record that owns its bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Owned {
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Any record.
pub fn owned() -> impl Strategy<Value = Owned> {
    let bytes =
        || prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => (0usize..5000, any::<u8>()).prop_map(|(n, b)| vec![b; n])];
    let timestamp = prop_oneof![Just(-1), Just(0), 1_700_000_000_000i64..1_700_000_100_000, any::<i64>()];
    (
        timestamp,
        option::of(bytes()),
        option::of(bytes()),
        vec(("[a-zü]{0,6}", option::of(vec(any::<u8>(), 0..9))), 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| Owned { timestamp, key, value, headers })
}

pub fn codec() -> impl Strategy<Value = Compression> {
    prop::sample::select(Compression::ALL.to_vec())
}

/// The records of a batch.
pub fn read(batch: &[u8]) -> Vec<Owned> {
    let decoded = decode_records(&BatchView::parse(batch).unwrap(), BYTES_LIMIT).unwrap();
    let records = decoded.records().map(|record| {
        let record = record.unwrap();
        Owned {
            timestamp: record.timestamp.0,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.map(|h| (h.key_text().into_owned(), h.value.map(<[u8]>::to_vec))).collect(),
        }
    });
    records.collect()
}
