//! Frames that no version of a request is: versions that are not served, bodies that end early or late, lengths that cannot be.

use wire::ApiKey;
use wire::messages::{
    CreateTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};

use super::records::old_message;
use crate::step::{Step, bytes, frame, raw};

pub fn steps() -> Vec<Step> {
    let mut steps = versions();
    steps.extend(bodies());
    steps.extend(lengths());
    steps
}

/// A body of zeros: nothing and none of everything.
const ZEROS: [u8; 64] = [0; 64];

fn versions() -> Vec<Step> {
    vec![
        raw::<ProduceRequest<'static>>("produce/old-versions", 0..=2, |_| old_produce()).silent(),
        raw::<ProduceRequest<'static>>("frames/produce-below", -1..=-1, |_| ZEROS.to_vec()).silent(),
        raw::<ProduceRequest<'static>>("frames/produce-above", 14..=14, |_| ZEROS.to_vec()).silent(),
        raw::<FetchRequest<'static>>("frames/fetch-below", 3..=3, |_| ZEROS.to_vec()).silent(),
        raw::<FetchRequest<'static>>("frames/fetch-above", 19..=19, |_| ZEROS.to_vec()).silent(),
        raw::<ListOffsetsRequest<'static>>("frames/list-offsets-below", 0..=0, |_| ZEROS.to_vec()).silent(),
        raw::<ListOffsetsRequest<'static>>("frames/list-offsets-above", 12..=12, |_| ZEROS.to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/metadata-above", 14..=14, |_| ZEROS.to_vec()).silent(),
        raw::<CreateTopicsRequest<'static>>("frames/create-topics-below", 1..=1, |_| ZEROS.to_vec()).silent(),
        raw::<OffsetForLeaderEpochRequest<'static>>("frames/epochs-below", 1..=1, |_| ZEROS.to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/metadata-highest", i16::MAX..=i16::MAX, |_| ZEROS.to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/metadata-lowest", i16::MIN..=i16::MIN, |_| ZEROS.to_vec()).silent(),
    ]
}

/// Produce 0 to 2: acks, timeout, a topic with a partition and a message of the old format.
fn old_produce() -> Vec<u8> {
    let message = old_message(1);
    let mut body = 1_i16.to_be_bytes().to_vec();
    body.extend_from_slice(&30_000_i32.to_be_bytes());
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(&5_i16.to_be_bytes());
    body.extend_from_slice(b"empty");
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(&0_i32.to_be_bytes());
    body.extend_from_slice(&i32::try_from(message.len()).expect("it is short").to_be_bytes());
    body.extend_from_slice(&message);
    body
}

/// Metadata of the topic `log`, at a version that is not flexible.
const METADATA: &[u8] = b"\0\0\0\x01\0\x03log\0";

fn bodies() -> Vec<Step> {
    vec![
        raw::<MetadataRequest<'static>>("frames/no-body", 4..=4, |_| Vec::new()).silent(),
        raw::<MetadataRequest<'static>>("frames/body-ends-early", 4..=4, |_| METADATA[..6].to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/bytes-behind-the-body", 4..=4, |_| [METADATA, &[1, 2, 3]].concat())
            .silent(),
        raw::<MetadataRequest<'static>>("frames/count-beyond-the-body", 4..=4, |_| i32::MAX.to_be_bytes().to_vec())
            .silent(),
        raw::<MetadataRequest<'static>>("frames/count-negative", 4..=4, |_| (-2_i32).to_be_bytes().to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/null-name", 4..=4, |_| b"\0\0\0\x01\xff\xff\0".to_vec()).silent(),
        raw::<MetadataRequest<'static>>("frames/name-not-utf-8", 4..=4, |_| b"\0\0\0\x01\0\x02\xff\xfe\0".to_vec())
            .silent(),
        bytes("frames/no-such-api", || frame(1000, 0, false, &ZEROS)).silent(),
        bytes("frames/retired-api", || frame(4, 0, false, &ZEROS)).silent(),
        bytes("frames/api-of-controllers", || frame(ApiKey::Vote.code(), 0, true, &ZEROS)).silent(),
        bytes("frames/negative-api", || frame(-1, 0, false, &ZEROS)).silent(),
    ]
}

fn lengths() -> Vec<Step> {
    let prefixed = |length: i32, rest: &[u8]| [&length.to_be_bytes()[..], rest].concat();
    vec![
        bytes("frames/empty", move || prefixed(0, &[])).silent(),
        bytes("frames/shorter-than-a-header", move || prefixed(3, &[0, 18, 0])).silent(),
        bytes("frames/negative-length", move || prefixed(-1, &[])).silent(),
        bytes("frames/longer-than-allowed", move || prefixed((100 << 20) + 1, &[])).silent(),
        bytes("frames/longest", move || prefixed(i32::MAX, &[])).silent(),
    ]
}
