//! Settings as people and clients give them, and what becomes of them.

use record::Compression;
use storage::CompactionConfig;

use super::topic::{SETTINGS, Setting, TopicConfig};

fn check(given: &[(&str, &str)]) -> Result<TopicConfig, String> {
    TopicConfig::from_settings(given.iter().copied()).map_err(|error| error.0)
}

#[test]
fn settings_are_taken_or_refused_with_a_reason() {
    assert_eq!(check(&[("retention.ms", "5")]).unwrap().retention_ms, 5);
    assert_eq!(check(&[("retention.bytes", "-1")]).unwrap().retention_bytes, -1);
    for (name, value, word) in [
        ("cleanup.policy", "keep", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,delete", "one of"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "-0.1", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "NaN", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "half", "from 0 to 1"),
        ("max.compaction.lag.ms", "0", "at least 1"),
        ("delete.retention.ms", "-1", "at least 0"),
        ("retention.ms", "-2", "at least -1"),
        ("segment.bytes", "x", "whole number"),
        ("segment.bytes", "99999999999", "in range"),
        ("message.timestamp.type", "createtime", "one of"),
        ("compression.type", "none", "one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.type", "GZIP", "one of"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "between 1 and 9"),
        ("compression.gzip.level", "fast", "whole number"),
        ("compression.zstd.level", "23", "between -131072 and 22"),
        ("compression.zstd.level", "-131073", "between -131072 and 22"),
        ("compression.lz4.level", "10", "fast compressor only"),
        ("local.retention.ms", "1", "not served"),
        ("no.such.setting", "1", "Unknown topic config name"),
    ] {
        let refused = check(&[(name, value)]).unwrap_err();
        assert!(refused.contains(word), "{name}={value}: {refused}");
    }
}

#[test]
fn what_becomes_of_old_records() {
    let retention = [("retention.ms", "5"), ("retention.bytes", "6"), ("retention.topic.bytes", "7")];
    for (policy, deletes, compacts) in
        [("delete", true, false), ("compact", false, true), ("delete, compact", true, true), ("", false, false)]
    {
        let given = retention.iter().copied().chain([("cleanup.policy", policy)]);
        let log = TopicConfig::from_settings(given).expect("valid").log_config(1, 1);
        let limits = (log.retention_ms, log.retention_bytes, log.retention_topic_bytes_share);
        assert_eq!(limits, if deletes { (Some(5), Some(6), Some(7)) } else { (None, None, None) }, "{policy}");
        assert_eq!(log.compaction.is_some(), compacts, "{policy}");
    }
    let tuned = [
        ("cleanup.policy", "compact"),
        ("delete.retention.ms", "1"),
        ("min.compaction.lag.ms", "2"),
        ("max.compaction.lag.ms", "3"),
        ("min.cleanable.dirty.ratio", "0.25"),
    ];
    let compaction = check(&tuned).unwrap().log_config(1, 1).compaction;
    let expected = CompactionConfig { delete_retention_ms: 1, min_lag_ms: 2, max_lag_ms: 3, min_dirty_ppm: 250_000 };
    assert_eq!(compaction, Some(expected));
    let described = check(&tuned).unwrap().describe();
    assert!(tuned.iter().all(|(name, value)| described[name] == *value));
    assert_eq!(TopicConfig::default().describe()["min.cleanable.dirty.ratio"], "0.5");
    let conflict = check(&[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "1")]).unwrap_err();
    assert_eq!(conflict, "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (1)");
}

#[test]
fn how_batches_are_stored() {
    let check = |given: &[(&str, &str)], expected: Option<(Compression, Option<i32>)>| {
        let recompression = check(given).unwrap().recompression();
        assert_eq!(recompression.map(|to| (to.codec, to.level)), expected, "{given:?}");
    };
    check(&[], None);
    check(&[("compression.type", "producer"), ("compression.gzip.level", "9")], None);
    check(&[("compression.type", "uncompressed")], Some((Compression::None, None)));
    check(&[("compression.type", "snappy")], Some((Compression::Snappy, None)));
    check(&[("compression.type", "lz4"), ("compression.lz4.level", "9")], Some((Compression::Lz4, None)));
    check(&[("compression.type", "gzip")], Some((Compression::Gzip, None)));
    check(&[("compression.type", "gzip"), ("compression.gzip.level", "1")], Some((Compression::Gzip, Some(1))));
    check(&[("compression.type", "zstd")], Some((Compression::Zstd, Some(3))));
    check(&[("compression.type", "zstd"), ("compression.zstd.level", "-5")], Some((Compression::Zstd, Some(-5))));
    for name in ["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"] {
        let config = TopicConfig::from_settings([("compression.type", name)]).unwrap();
        assert_eq!(config.describe()["compression.type"], name);
    }
}

#[test]
fn labels_are_kept_as_they_are_within_bounds() {
    let longest = "ü".repeat(512);
    for (given, kept) in [
        ("orders-value:3", Ok("orders-value:3")),
        ("  at least once, in order  ", Ok("at least once, in order")),
        (&longest, Ok(&*longest)),
        (&format!("{longest}x"), Err("1025 bytes")),
        ("", Err("not be empty")),
        (" \t", Err("not be empty")),
        ("two\nlines", Err("one line")),
        ("bell\u{7}", Err("one line")),
    ] {
        for (name, get) in [
            ("key.schema", (|config| config.key_schema) as fn(TopicConfig) -> Option<std::sync::Arc<str>>),
            ("value.schema", |config| config.value_schema),
            ("delivery.contract", |config| config.delivery_contract),
        ] {
            match (check(&[(name, given)]).map(get), kept) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), Some(expected), "{name}"),
                (Err(reason), Err(word)) => assert!(reason.contains(word), "{name}={given}: {reason}"),
                (found, expected) => panic!("{name}={given}: {found:?} and not {expected:?}"),
            }
        }
    }
    assert!(!TopicConfig::default().describe().contains_key("key.schema"), "a label has no default");
}

#[test]
fn values_that_come_to_the_same_are_the_same() {
    for (name, one, other, same) in [
        ("retention.ms", "5", " 05 ", true),
        ("retention.ms", "5", "6", false),
        ("retention.ms", "x", "x", true),
        ("retention.ms", "x", "y", false),
        ("retention.ms", "5", "x", false),
        ("cleanup.policy", "delete", "compact", false),
        ("cleanup.policy", "compact,delete", "delete, compact", true),
        ("flush.ms", "1", "9223372036854775807", true),
        ("key.schema", "a", "A", false),
    ] {
        assert_eq!(Setting::named(name).unwrap().is_same(one, other), same, "{name}: {one} and {other}");
    }
}

#[test]
fn the_table_is_sorted_and_describes_itself() {
    assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
    let described = TopicConfig::default().describe();
    let again = TopicConfig::from_settings(described.iter().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(again, Ok(TopicConfig::default()));
}

#[test]
fn a_topics_bytes_are_shared_by_its_partitions() {
    let share =
        |bytes| check(&[("retention.topic.bytes", bytes)]).unwrap().log_config(10, 1).retention_topic_bytes_share;
    assert_eq!(share("1000"), Some(100));
    assert_eq!(share("-1"), None);
}
