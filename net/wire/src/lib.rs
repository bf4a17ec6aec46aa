//! The Kafka wire protocol: messages, their versions, headers, frames and error codes.
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
//! Invariants: no length from the wire is trusted before it is compared with the bytes that remain; recursion is bounded by
//! the nesting of the message types, which is checked when they compile ([`DEPTH_MAX`]); no input panics; what was decoded
//! encodes again at the same version.

// The derive names this crate by its name, also from inside.
extern crate self as wire;

mod api_key;
mod array;
mod decode;
#[doc(hidden)]
pub mod derived;
mod element;
mod encode;
mod error;
mod error_code;
mod frame;
mod header;
mod message;
pub mod messages;
mod records;

pub use api_key::ApiKey;
pub use array::{Array, Iter};
pub use decode::Decoder;
pub use element::{DEPTH_MAX, Nullable, STRING_BYTES_MAX, Wire};
pub use encode::Encoder;
pub use error::{DecodeError, DecodeFault, EncodeError, EncodeFault};
pub use error_code::ErrorCode;
pub use frame::{Frame, FrameError, LENGTH_BYTES, Part, encode_request, encode_response, frame_length, offset_in};
pub use header::{RequestHeader, ResponseHeader};
pub use message::{Message, Request, Role};
pub use records::Records;
pub use wire_derive::Wire;
