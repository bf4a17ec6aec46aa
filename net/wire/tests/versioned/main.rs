//! What has its version in front, at every version: what is written is read again, and nothing else is.

#[macro_use]
#[path = "../support/sample.rs"]
mod sample;
#[macro_use]
#[path = "../support/versioned_table.rs"]
mod versioned_table;

/// Checks one struct at all its versions.
macro_rules! check_versions {
    ($name:ty) => {
        for version in <$name as Versioned>::VERSIONS {
            for seed in 0..SAMPLES {
                let bytes = encoded::<$name>(version, seed);
                reads_what_it_wrote::<$name>(&bytes, version, seed);
                refuses_more::<$name>(&[&bytes[..], &[0]].concat());
                // Cutting takes the square of the length, so only short samples are cut.
                if bytes.len() < 1_000 {
                    refuses_every_part::<$name>(&bytes);
                }
            }
        }
    };
}

mod consumer_protocol;
mod keys;

use sample::{Sample, Source};
use std::fmt::Debug;
use wire::group_records::Value;
use wire::{DecodeFault, EncodeFault, Versioned};

/// Samples per struct and version.
const SAMPLES: u64 = 200;

fn encoded<'a, T: Versioned<'a> + Sample>(version: i16, seed: u64) -> Vec<u8> {
    let value = T::sample(&mut Source::new(version, seed));
    value.to_bytes(version).unwrap_or_else(|error| panic!("{} {version} {seed}: {error}", T::NAME))
}

fn reads_what_it_wrote<'a, T: Versioned<'a> + Sample + PartialEq + Debug>(bytes: &'a [u8], version: i16, seed: u64) {
    assert_eq!(bytes[..2], version.to_be_bytes());
    let written = T::sample(&mut Source::new(version, seed));
    let read = T::from_bytes(bytes);
    assert_eq!(read.as_ref(), Ok(&written), "{} {version} {seed}", T::NAME);
    // The arrays of what was read are still bytes, those of the sample are vectors; both must encode alike.
    assert_eq!(read.unwrap().to_bytes(version).as_deref(), Ok(bytes), "{} {version} {seed}", T::NAME);
}

fn refuses_every_part<'a, T: Versioned<'a> + Debug>(bytes: &'a [u8]) {
    for end in 0..bytes.len() {
        let error = T::from_bytes(&bytes[..end]).unwrap_err();
        assert!(error.position <= end, "{} cut at {end}: {error}", T::NAME);
    }
}

fn refuses_more<'a, T: Versioned<'a> + Debug>(bytes: &'a [u8]) {
    assert_eq!(T::from_bytes(bytes).unwrap_err().fault, DecodeFault::TrailingBytes(1), "{}", T::NAME);
}

fn refuses_versions<'a, T: Versioned<'a> + Default + Debug>(name: &'static str) {
    let (first, last) = (*T::VERSIONS.start(), *T::VERSIONS.end());
    assert_eq!(T::NAME, name);
    for version in [first - 1, last + 1, i16::MIN, i16::MAX] {
        let error = T::decode(&mut wire::Decoder::new(&[0; 64]), version).unwrap_err();
        assert_eq!(error.fault, DecodeFault::UnsupportedVersion { name, version });
        let error = T::default().to_bytes(version).unwrap_err();
        assert_eq!(error.fault, EncodeFault::UnsupportedVersion { name, version });
    }
}

#[test]
fn the_value_of_a_record_is_read_as_it_was_written_and_nothing_else_is() {
    macro_rules! check {
        ($kind:ident, $key:ident, $value:ident) => {
            check_versions!(wire::group_records::$value);
            refuses_versions::<wire::group_records::$value>(stringify!($value));
        };
    }
    every_record!(check);
}

#[test]
fn a_value_is_written_at_the_version_at_which_kafka_writes_it() {
    macro_rules! check {
        ($kind:ident, $key:ident, $value:ident) => {
            let value = wire::group_records::$value::default();
            let expected = match stringify!($value) {
                "OffsetCommitValue" => 4,
                "GroupMetadataValue" => 3,
                _ => 0,
            };
            assert_eq!(value.version_written(), expected, stringify!($value));
            assert_eq!(value.to_record(), value.to_bytes(expected), stringify!($value));
        };
    }
    every_record!(check);
    let expires = wire::group_records::OffsetCommitValue { expire_timestamp: 1, ..Default::default() };
    assert_eq!(expires.to_record(), expires.to_bytes(1));
}
