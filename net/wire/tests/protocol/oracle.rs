//! The `kafka-protocol` crate, generated from Kafka's definitions by other people, as the judge of our bytes.
//!
//! It reads what we wrote and finds the same value in every field, and it writes that value as the same bytes.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Uuid};
use bytes::Bytes;
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use wire::{Array, ErrorCode, Message, Records, Wire};

use crate::sample::{Sample, Source};
use crate::{SAMPLES, encoded, versions_of};

/// Our value and the oracle's mean the same.
trait Same<Theirs> {
    fn assert_same(&self, theirs: &Theirs, field: &str);
}

macro_rules! same_numbers {
    ($($ours:ty, $theirs:ty, |$one:ident| $convert:expr;)*) => {$(
        impl Same<$theirs> for $ours {
            fn assert_same(&self, theirs: &$theirs, field: &str) {
                let $one = *self;
                assert_eq!($convert, *theirs, "{field}");
            }
        }
    )*};
}

same_numbers! {
    bool, bool, |one| one;
    i8, i8, |one| one;
    i16, i16, |one| one;
    i32, i32, |one| one;
    i64, i64, |one| one;
    ErrorCode, i16, |one| one.code();
    PartitionIndex, i32, |one| one.0;
    LeaderEpoch, i32, |one| one.0;
    Offset, i64, |one| one.0;
    ProducerEpoch, i16, |one| one.0;
    BrokerId, theirs::BrokerId, |one| theirs::BrokerId(one.0);
    ProducerId, theirs::ProducerId, |one| theirs::ProducerId(one.0);
    Uuid, uuid::Uuid, |one| uuid::Uuid::from_bytes(one.0);
}

impl Same<StrBytes> for &str {
    fn assert_same(&self, theirs: &StrBytes, field: &str) {
        assert_eq!(*self, theirs.as_str(), "{field}");
    }
}

impl Same<theirs::TopicName> for &str {
    fn assert_same(&self, theirs: &theirs::TopicName, field: &str) {
        self.assert_same(&theirs.0, field);
    }
}

impl Same<theirs::GroupId> for &str {
    fn assert_same(&self, theirs: &theirs::GroupId, field: &str) {
        self.assert_same(&theirs.0, field);
    }
}

impl Same<theirs::TransactionalId> for &str {
    fn assert_same(&self, theirs: &theirs::TransactionalId, field: &str) {
        self.assert_same(&theirs.0, field);
    }
}

impl Same<Bytes> for &[u8] {
    fn assert_same(&self, theirs: &Bytes, field: &str) {
        assert_eq!(*self, theirs, "{field}");
    }
}

impl Same<Option<Bytes>> for Records<'_> {
    fn assert_same(&self, theirs: &Option<Bytes>, field: &str) {
        assert_eq!(self.bytes(), theirs.as_deref(), "{field}");
    }
}

impl<Ours: Same<Theirs>, Theirs> Same<Option<Theirs>> for Option<Ours> {
    fn assert_same(&self, theirs: &Option<Theirs>, field: &str) {
        match (self, theirs) {
            (Some(ours), Some(theirs)) => ours.assert_same(theirs, field),
            (ours, theirs) => assert_eq!(ours.is_some(), theirs.is_some(), "{field}: null on one side"),
        }
    }
}

impl<'a, Ours: Same<Theirs> + Wire<'a> + Clone, Theirs> Same<Vec<Theirs>> for Array<'a, Ours> {
    fn assert_same(&self, theirs: &Vec<Theirs>, field: &str) {
        assert_eq!(self.len(), theirs.len(), "{field}");
        for (ours, theirs) in self.iter().zip(theirs) {
            ours.assert_same(theirs, field);
        }
    }
}

/// Leaves out the judgement of a field that the oracle does not have.
macro_rules! unless_beyond {
    ([] $judgement:block) => {
        $judgement
    };
    ([$($versions:tt)+] $judgement:block) => {};
}

macro_rules! same_struct {
    ($($module:ident / $oracle:ident :: $name:ident $(<$life:lifetime>)? {
        $($field:ident $([$($versions:tt)+])? $(beyond [$($beyond:tt)+])? $(null [$($nullable:tt)+])?),* $(,)?
    })*) => {$(
        impl Same<theirs::$oracle::$name> for wire::messages::$module::$name $(<$life>)? {
            fn assert_same(&self, theirs: &theirs::$oracle::$name, _: &str) {
                $(unless_beyond!([$($($beyond)+)?] {
                    self.$field.assert_same(&theirs.$field, concat!(stringify!($name), ".", stringify!($field)));
                });)*
            }
        }
    )*};
}

every_struct!(same_struct);

// The oracle has these twice, as Kafka's definitions do.
same_struct! {
    incremental_alter_configs/incremental_alter_configs_response::AlterConfigsResourceResponse<'_> {
        error_code, error_message null [0..], resource_type, resource_name,
    }
    describe_topic_partitions/describe_topic_partitions_response::Cursor<'_> { topic_name, partition_index }
    consumer_group_heartbeat/consumer_group_heartbeat_response::TopicPartitions<'_> { topic_id, partitions }
}

/// Versions that the oracle lacks, since it follows an older Kafka: here nobody judges our bytes but we.
const BEYOND: [(&str, i16); 6] = [
    ("DescribeLogDirsRequest", 5),
    ("DescribeLogDirsResponse", 5),
    ("OffsetCommitRequest", 10),
    ("OffsetFetchRequest", 10),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
];

fn agrees<'a, Ours, Theirs>(bytes: &'a [u8], version: i16, seed: u64)
where
    Ours: Message<'a> + Sample + Same<Theirs>,
    Theirs: Decodable + Encodable,
{
    let at = format!("{} {version}, seed {seed}", Ours::NAME);
    let mut rest = Bytes::copy_from_slice(bytes);
    let theirs = Theirs::decode(&mut rest, version).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert!(rest.is_empty(), "{at}: the oracle leaves bytes behind");
    Ours::sample(&mut Source::new(version, seed)).assert_same(&theirs, &at);
    let mut written = Vec::new();
    theirs.encode(&mut written, version).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(written, bytes, "{at}");
}

#[test]
fn another_implementation_reads_and_writes_the_same_bytes() {
    let mut beyond = Vec::new();
    macro_rules! check {
        ($name:ident) => {
            let known = <theirs::$name as kafka_protocol::protocol::Message>::VERSIONS;
            for version in versions_of::<wire::messages::$name>() {
                if !(known.min..=known.max).contains(&version) {
                    beyond.push((stringify!($name), version));
                    continue;
                }
                for seed in 0..SAMPLES {
                    let bytes = encoded::<wire::messages::$name>(version, seed);
                    agrees::<wire::messages::$name, theirs::$name>(&bytes, version, seed);
                }
            }
        };
    }
    every_message!(check);
    assert_eq!(beyond, BEYOND);
}

#[test]
fn the_headers_are_those_of_another_implementation() {
    for key in wire::ApiKey::ALL {
        // The oracle follows an older Kafka and lacks the newest keys.
        let Ok(theirs) = theirs::ApiKey::try_from(key.code()) else { continue };
        let versions = theirs.valid_versions();
        for version in versions.min..=versions.max {
            let ours = (key.request_header_version(version), key.response_header_version(version));
            let theirs = (theirs.request_header_version(version), theirs.response_header_version(version));
            assert_eq!(ours, theirs, "{key} {version}");
        }
    }
}
