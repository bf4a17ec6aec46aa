//! The Kafka wire protocol: messages, their versions, headers, frames and error codes; and the formats with a version of
//! their own that stand in the log or inside messages ([`group_records`], [`consumer_protocol`]).
//!
//! Pure: bytes in, values out, and back. No socket, no clock, no shard; every shard uses it, none owns it.
//!
//! - A message is declared, not programmed: one file per API in [`messages`], with `#[derive(Wire)]` reading the version
//!   ranges, nullability and tags from the fields.
//! - Decoding borrows from the frame and allocates nothing. Strings and bytes are slices of it; an [`Array`] is checked
//!   once when its message is decoded and then decoded again as it is walked. So a hostile frame costs no memory, whatever
//!   lengths it claims.
//! - Encoding gathers the structure of a frame in one buffer and leaves places for [`Records`] that stay where they are,
//!   so record bytes travel without a copy ([`Frame::parts`]).
//!
//! ```
//! use base::PartitionIndex;
//! use wire::messages::{FetchRequest, fetch::{FetchPartition, FetchTopic}};
//! use wire::{Decoder, Message, RequestHeader, encode_request};
//!
//! let partitions = [FetchPartition { partition: PartitionIndex(0), partition_max_bytes: 1 << 20, ..Default::default() }];
//! let topics = vec![FetchTopic { topic: "orders", partitions: (&partitions).into(), ..Default::default() }];
//! let request = FetchRequest { max_wait_ms: 500, min_bytes: 1, topics: topics.into(), ..Default::default() };
//! let frame = encode_request(12, 1, Some("me"), &request, Vec::new())?;
//!
//! let mut decoder = Decoder::new(&frame.structure()[wire::LENGTH_BYTES..]);
//! let header = RequestHeader::decode(&mut decoder)?;
//! let request = FetchRequest::decode_exact(decoder, header.api_version)?;
//! for topic in &request.topics {
//!     assert_eq!((topic.topic, topic.partitions.len()), ("orders", 1));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: no length from the wire is trusted before it is compared with the bytes that remain; recursion is bounded by
//! the nesting of the message types, which is checked when they compile ([`DEPTH_MAX`]); no input panics; what was decoded
//! encodes again at the same version.

// The derive names this crate by its name, also from inside.
extern crate self as wire;

mod api_key;
mod array;
pub mod consumer_protocol;
mod decode;
#[doc(hidden)]
pub mod derived;
mod element;
mod encode;
mod error;
mod error_code;
mod frame;
pub mod group_records;
mod header;
mod message;
pub mod messages;
mod records;
mod versioned;

pub use api_key::ApiKey;
pub use array::{Array, Iter};
pub use decode::Decoder;
pub use element::{DEPTH_MAX, Nullable, STRING_BYTES_MAX, Wire, cut_to_string};
pub use encode::Encoder;
pub use error::{DecodeError, DecodeFault, EncodeError, EncodeFault};
pub use error_code::ErrorCode;
pub use frame::{Frame, FrameError, LENGTH_BYTES, Part, encode_request, encode_response, frame_length, offset_in};
pub use header::{RequestHeader, ResponseHeader};
pub use message::{Message, Request, Role};
pub use records::Records;
pub use versioned::Versioned;
pub use wire_derive::Wire;
