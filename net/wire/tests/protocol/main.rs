//! Every message at every version: what is written is read again, an independent implementation reads and writes the same
//! bytes, and no part of a message passes for the whole.

#[macro_use]
#[path = "../support/sample.rs"]
mod sample;
#[macro_use]
#[path = "../support/table.rs"]
mod table;
mod oracle;

use sample::{Sample, Source};
use std::fmt::Debug;
use wire::{Decoder, Encoder, Message};

/// Samples per message and version.
const SAMPLES: u64 = 200;

fn encoded<'a, M: Message<'a> + Sample>(version: i16, seed: u64) -> Vec<u8> {
    let message = M::sample(&mut Source::new(version, seed));
    let mut encoder = Encoder::new();
    message.encode(version, &mut encoder).unwrap_or_else(|error| panic!("{} {version} {seed}: {error}", M::NAME));
    encoder.bytes().to_vec()
}

fn reads_what_it_wrote<'a, M: Message<'a> + Sample + PartialEq + Debug>(bytes: &'a [u8], version: i16, seed: u64) {
    let written = M::sample(&mut Source::new(version, seed));
    let read = M::decode_exact(Decoder::new(bytes), version);
    assert_eq!(read.as_ref(), Ok(&written), "{} {version} {seed}", M::NAME);
    // The arrays of what was read are still bytes, those of the sample are vectors; both must encode alike.
    let mut again = Encoder::new();
    read.unwrap().encode(version, &mut again).unwrap();
    assert_eq!(again.bytes(), bytes, "{} {version} {seed}", M::NAME);
}

fn refuses_every_part<'a, M: Message<'a> + Debug>(bytes: &'a [u8], version: i16) {
    for end in 0..bytes.len() {
        let error = M::decode_exact(Decoder::new(&bytes[..end]), version).unwrap_err();
        assert!(error.position <= end, "{} {version} cut at {end}: {error}", M::NAME);
    }
}

fn versions_of<'a, M: Message<'a>>() -> std::ops::RangeInclusive<i16> {
    M::VERSIONS
}

#[test]
fn what_is_written_is_read_again() {
    macro_rules! check {
        ($name:ident) => {
            for version in versions_of::<wire::messages::$name>() {
                for seed in 0..SAMPLES {
                    let bytes = encoded::<wire::messages::$name>(version, seed);
                    reads_what_it_wrote::<wire::messages::$name>(&bytes, version, seed);
                }
            }
        };
    }
    every_message!(check);
}

#[test]
fn no_part_of_a_message_passes_for_the_whole() {
    macro_rules! check {
        ($name:ident) => {
            for version in versions_of::<wire::messages::$name>() {
                // Cutting takes the square of the length, so only short samples are cut.
                for seed in 0..SAMPLES {
                    let bytes = encoded::<wire::messages::$name>(version, seed);
                    if bytes.len() < 1_000 {
                        refuses_every_part::<wire::messages::$name>(&bytes, version);
                    }
                }
            }
        };
    }
    every_message!(check);
}

#[test]
fn versions_outside_the_range_are_refused() {
    macro_rules! check {
        ($name:ident) => {
            let versions = versions_of::<wire::messages::$name>();
            for version in [versions.start() - 1, versions.end() + 1, i16::MIN, i16::MAX] {
                assert!(wire::messages::$name::decode_exact(Decoder::new(&[0; 64]), version).is_err());
                assert!(wire::messages::$name::default().encode(version, &mut Encoder::new()).is_err());
            }
        };
    }
    every_message!(check);
}
