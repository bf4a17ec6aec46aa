//! Frames end to end: headers, the length prefix, external records, and the bytes of a few messages written out by hand.

use base::{Offset, PartitionIndex, Uuid};
use wire::messages::describe_log_dirs::DescribeLogDirsResult;
use wire::messages::describe_topic_partitions::Cursor;
use wire::messages::fetch::{FetchableTopicResponse, PartitionData};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeLogDirsResponse, DescribeTopicPartitionsRequest, FetchResponse,
    ProduceRequest,
};
use wire::{
    ApiKey, DecodeFault, Decoder, ErrorCode, FrameError, LENGTH_BYTES, Message, Part, Records, RequestHeader,
    ResponseHeader, encode_request, encode_response, frame_length, offset_in,
};

#[test]
fn a_request_travels_with_its_header_and_its_records_stay_in_the_frame() {
    let records = b"not looked into";
    for version in ProduceRequest::VERSIONS {
        let partition = [PartitionProduceData { index: PartitionIndex(3), records: records.as_slice().into() }];
        let named = version < 13;
        let topic = [TopicProduceData {
            name: if named { "orders" } else { "" },
            topic_id: if named { Uuid::ZERO } else { Uuid([7; 16]) },
            partition_data: (&partition).into(),
        }];
        let sent = ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: (&topic).into(), ..Default::default() };
        let frame = encode_request(version, 77, Some("client"), &sent, Vec::new()).unwrap();
        assert!(frame.is_whole());
        let (prefix, body) = frame.structure().split_first_chunk::<LENGTH_BYTES>().unwrap();
        assert_eq!(frame_length(*prefix, 1 << 20), Ok(body.len()));

        let mut decoder = Decoder::new(body);
        let header = RequestHeader::decode(&mut decoder).unwrap();
        let expected = RequestHeader {
            api_key: ApiKey::Produce,
            api_version: version,
            correlation_id: 77,
            client_id: Some("client"),
        };
        assert_eq!(header, expected);
        let received = ProduceRequest::decode_exact(decoder, version).unwrap();
        assert_eq!(received, sent);

        let topic = received.topic_data.iter().next().unwrap();
        let bytes = topic.partition_data.iter().next().unwrap().records.bytes().unwrap();
        let offset = offset_in(body, bytes).unwrap();
        assert_eq!(&body[offset..offset + bytes.len()], records);
        assert_eq!(offset_in(body, records), None, "equal bytes elsewhere are not part of the frame");
    }
}

#[test]
fn records_outside_the_structure_leave_places_in_it() {
    let stored = [b"first batch".as_slice(), b"", b"the second"];
    let partition = |index: i32, records| PartitionData {
        partition_index: PartitionIndex(index),
        high_watermark: Offset(9),
        records,
        ..Default::default()
    };
    let external = |index: u32| Records::External { index, length: stored[index as usize].len() };
    for version in FetchResponse::VERSIONS {
        let response = |records: [Records<'static>; 3]| FetchResponse {
            responses: vec![FetchableTopicResponse {
                partitions: records.into_iter().zip(0..).map(|(records, index)| partition(index, records)).collect(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        };
        let split =
            encode_response(version, 5, &response([external(0), external(1), external(2)]), Vec::new()).unwrap();
        let whole = response([0, 1, 2].map(|index: usize| stored[index].into()));
        let whole = encode_response(version, 5, &whole, Vec::new()).unwrap();

        let mut sent = Vec::new();
        for part in split.parts() {
            match part {
                Part::Structure(range) => sent.extend_from_slice(&split.structure()[range]),
                Part::External { index, length } => {
                    assert_eq!(length, stored[index as usize].len());
                    sent.extend_from_slice(stored[index as usize]);
                }
            }
        }
        assert_eq!(sent, whole.structure(), "version {version}");
        assert_eq!((split.bytes_total(), split.is_whole()), (sent.len(), false));
    }
}

#[test]
fn bytes_written_by_hand() {
    // ApiVersions 3: client id with a two-byte length, then the tagged fields of header 2, then compact strings.
    let request = b"\x00\x12\x00\x03\x00\x00\x00\x05\x00\x02me\x00\x03lb\x021\x00";
    let mut decoder = Decoder::new(request);
    let header = RequestHeader::decode(&mut decoder).unwrap();
    assert_eq!((header.api_key, header.api_version, header.client_id), (ApiKey::ApiVersions, 3, Some("me")));
    let body = ApiVersionsRequest::decode_exact(decoder, 3).unwrap();
    assert_eq!(body, ApiVersionsRequest { client_software_name: "lb", client_software_version: "1" });
    let frame = encode_request(3, 5, Some("me"), &body, Vec::new()).unwrap();
    assert_eq!(&frame.structure()[LENGTH_BYTES..], request);

    // Its answer has header 0 in every version, and in version 0 an error, an array of three numbers each, no more.
    let response = ApiVersionsResponse { error_code: ErrorCode::UnsupportedVersion, ..Default::default() };
    let frame = encode_response(0, 5, &response, Vec::new()).unwrap();
    assert_eq!(frame.structure(), b"\x00\x00\x00\x0a\x00\x00\x00\x05\x00\x23\x00\x00\x00\x00");
    let mut decoder = Decoder::new(&frame.structure()[LENGTH_BYTES..]);
    let header = ResponseHeader::decode(&mut decoder, ApiKey::ApiVersions, 0).unwrap();
    assert_eq!(header.correlation_id, 5);
    assert_eq!(ApiVersionsResponse::decode_exact(decoder, 0).unwrap(), response);
}

/// The frame at this version is these bytes behind its length, and they are the response again.
fn check_response<'a, M: Message<'a> + PartialEq + std::fmt::Debug>(response: &M, version: i16, bytes: &'a [u8]) {
    let frame = encode_response(version, 5, response, Vec::new()).unwrap();
    assert_eq!(&frame.structure()[LENGTH_BYTES..], bytes);
    let mut decoder = Decoder::new(bytes);
    assert_eq!(ResponseHeader::decode(&mut decoder, M::KEY, version).unwrap().correlation_id, 5);
    assert_eq!(M::decode_exact(decoder, version).as_ref(), Ok(response));
}

#[test]
fn log_directories_written_by_hand() {
    let directory = DescribeLogDirsResult { log_dir: "/d", usable_bytes: 7, is_cordoned: true, ..Default::default() };
    let response = |directory: DescribeLogDirsResult<'static>| DescribeLogDirsResponse {
        results: vec![directory].into(),
        ..Default::default()
    };
    // Version 5, which the oracle lacks, is version 4 and a byte.
    let until_total = b"\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x03/d\x01";
    let sizes = b"\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x07";
    let bytes = |end: &[u8]| [until_total.as_slice(), sizes, end].concat();
    check_response(&response(directory.clone()), 5, &bytes(b"\x01\x00\x00"));
    check_response(&response(DescribeLogDirsResult { is_cordoned: false, ..directory }), 4, &bytes(b"\x00\x00"));
}

#[test]
fn a_struct_that_may_be_null_has_a_byte_in_front() {
    let cursor = Cursor { topic_name: "t", partition_index: PartitionIndex(3) };
    let table: [(_, &[u8]); 2] = [
        (None, b"\x01\x00\x00\x07\xd0\xff\x00"),
        (Some(cursor), b"\x01\x00\x00\x07\xd0\x01\x02t\x00\x00\x00\x03\x00\x00"),
    ];
    for (cursor, bytes) in table {
        let request = DescribeTopicPartitionsRequest { cursor, ..Default::default() };
        let frame = encode_request(0, 5, None, &request, Vec::new()).unwrap();
        assert!(frame.structure().ends_with(bytes), "{frame:?}");
        assert_eq!(DescribeTopicPartitionsRequest::decode_exact(Decoder::new(bytes), 0), Ok(request));
    }
    // Kafka takes every negative byte for null and every other for a struct that follows.
    let table: [(&[u8], _); 3] = [
        (b"\x01\x00\x00\x07\xd0\x80\x00", Ok(None)),
        (b"\x01\x00\x00\x07\xd0\x00\x02t\x00\x00\x00\x03\x00\x00", Ok(Some(cursor))),
        (b"\x01\x00\x00\x07\xd0\x01\x00", Err(("Cursor.topic_name", 6, DecodeFault::Null))),
    ];
    for (bytes, expected) in table {
        let read = DescribeTopicPartitionsRequest::decode_exact(Decoder::new(bytes), 0);
        let read = read.map(|request| request.cursor).map_err(|error| (error.field, error.position, error.fault));
        assert_eq!(read, expected);
    }
}

#[test]
fn a_header_of_a_version_from_the_future_can_be_read() {
    let request = b"\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff\x01\x09\x02hiwhatever";
    let mut decoder = Decoder::new(request);
    let header = RequestHeader::decode(&mut decoder).unwrap();
    assert_eq!((header.api_version, header.client_id, decoder.rest()), (99, None, b"whatever".as_slice()));
    let error = ApiVersionsRequest::decode_exact(decoder, 99).unwrap_err();
    assert_eq!(error.fault, DecodeFault::UnsupportedVersion { name: "ApiVersionsRequest", version: 99 });
    assert_eq!(
        RequestHeader::decode(&mut Decoder::new(b"\x00\x04\x00\x00")).unwrap_err().fault,
        DecodeFault::UnknownApiKey(4)
    );
}

#[test]
fn a_length_prefix_is_bounded_by_the_caller() {
    let table = [
        (0, Ok(0)),
        (100, Ok(100)),
        (101, Err(FrameError::TooLong { length: 101, limit: 100 })),
        (-1, Err(FrameError::Negative(-1))),
        (i32::MIN, Err(FrameError::Negative(i32::MIN))),
    ];
    for (length, expected) in table {
        assert_eq!(frame_length(length.to_be_bytes(), 100), expected);
    }
}
