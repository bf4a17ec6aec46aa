//! The values a message is made of, and their bytes.

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Uuid};

use crate::{DecodeError, DecodeFault, Decoder, EncodeError, Encoder, ErrorCode};

/// The longest string that Kafka reads, in bytes.
pub const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// As much of a text as a string of the protocol holds: what names a name of the other side's may be longer.
#[must_use]
pub fn cut_to_string(text: impl Into<String>) -> String {
    let mut text = text.into();
    text.truncate(text.floor_char_boundary(STRING_BYTES_MAX));
    text
}

/// The deepest nesting of structs and arrays in a message. One that is deeper, or that contains itself, does not compile:
///
/// ```compile_fail,E0391
/// #[derive(Clone, PartialEq, Debug, wire::Wire)]
/// struct Endless<'a> {
///     again: wire::Array<'a, Endless<'a>>,
/// }
/// const DEPTH: usize = <Endless as wire::Wire>::DEPTH;
/// ```
pub const DEPTH_MAX: usize = 16;

/// A value with a form on the wire at the version that the encoder or decoder stands at.
///
/// `take` is a pure function of the bytes, the version and the flexibility: what it accepts once, it accepts again. An
/// [`crate::Array`] rests on that.
pub trait Wire<'a>: Sized {
    /// How deep the type nests.
    const DEPTH: usize = 0;

    /// Writes the value.
    fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError>;

    /// Reads the value; never allocates.
    fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError>;

    /// Checks and passes over `count` values.
    fn skip(decoder: &mut Decoder<'a>, count: usize) -> Result<(), DecodeError> {
        for _ in 0..count {
            Self::take(decoder)?;
        }
        Ok(())
    }
}

/// A value that may be null. [`Wire::take`] refuses null; these do not.
pub trait Nullable<'a>: Wire<'a> {
    fn put_null(encoder: &mut Encoder);

    /// Writes the value where null would have been allowed.
    fn put_present(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        self.put(encoder)
    }

    fn take_nullable(decoder: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError>;

    /// As [`Nullable::put_null`] in a tagged field, where a struct says otherwise than elsewhere that it is null.
    fn put_tagged_null(encoder: &mut Encoder) {
        Self::put_null(encoder);
    }

    /// As [`Nullable::put_present`] in a tagged field.
    fn put_tagged_present(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        self.put_present(encoder)
    }

    /// As [`Nullable::take_nullable`] in a tagged field.
    fn take_tagged_nullable(decoder: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Self::take_nullable(decoder)
    }
}

/// Numbers of a fixed size, alone or under the name of an id.
macro_rules! numbers {
    ($($type:ty, $bytes:literal, |$value:ident| $to:expr, $from:expr;)*) => {$(
        impl<'a> Wire<'a> for $type {
            fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
                let $value = *self;
                encoder.put_slice(&$to.to_be_bytes());
                Ok(())
            }

            fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                decoder.take_array::<$bytes>().map($from)
            }

            fn skip(decoder: &mut Decoder<'a>, count: usize) -> Result<(), DecodeError> {
                decoder.take(count.saturating_mul($bytes)).map(|_| ())
            }
        }
    )*};
}

numbers! {
    bool, 1, |value| u8::from(value), |[byte]: [u8; 1]| byte != 0;
    i8, 1, |value| value, i8::from_be_bytes;
    i16, 2, |value| value, i16::from_be_bytes;
    u16, 2, |value| value, u16::from_be_bytes;
    i32, 4, |value| value, i32::from_be_bytes;
    i64, 8, |value| value, i64::from_be_bytes;
    f64, 8, |value| value, f64::from_be_bytes;
    Uuid, 16, |value| u128::from_be_bytes(value.0), Uuid;
    BrokerId, 4, |value| value.0, |bytes| Self(i32::from_be_bytes(bytes));
    PartitionIndex, 4, |value| value.0, |bytes| Self(i32::from_be_bytes(bytes));
    LeaderEpoch, 4, |value| value.0, |bytes| Self(i32::from_be_bytes(bytes));
    Offset, 8, |value| value.0, |bytes| Self(i64::from_be_bytes(bytes));
    ProducerId, 8, |value| value.0, |bytes| Self(i64::from_be_bytes(bytes));
    ProducerEpoch, 2, |value| value.0, |bytes| Self(i16::from_be_bytes(bytes));
    ErrorCode, 2, |value| value.code(), |bytes| Self::from_wire(i16::from_be_bytes(bytes));
}

impl<'a> Wire<'a> for &'a str {
    fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_string(Some(self))
    }

    fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        not_null(decoder, Decoder::take_string)
    }
}

impl<'a> Nullable<'a> for &'a str {
    fn put_null(encoder: &mut Encoder) {
        if encoder.is_flexible() {
            encoder.put_uvarint(0);
        } else {
            encoder.put_i16(-1);
        }
    }

    fn take_nullable(decoder: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        decoder.take_string()
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_bytes(Some(self))
    }

    fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        not_null(decoder, Decoder::take_bytes)
    }
}

impl<'a> Nullable<'a> for &'a [u8] {
    fn put_null(encoder: &mut Encoder) {
        put_null_length(encoder);
    }

    fn take_nullable(decoder: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        decoder.take_bytes()
    }
}

/// Null for what has a length as byte strings and arrays have.
pub(crate) fn put_null_length(encoder: &mut Encoder) {
    if encoder.is_flexible() {
        encoder.put_uvarint(0);
    } else {
        encoder.put_i32(-1);
    }
}

/// Reads what may be null and refuses null, with the position of the value.
pub(crate) fn not_null<'a, T>(
    decoder: &mut Decoder<'a>,
    take: impl FnOnce(&mut Decoder<'a>) -> Result<Option<T>, DecodeError>,
) -> Result<T, DecodeError> {
    let start = *decoder;
    take(decoder)?.ok_or_else(|| start.fail(DecodeFault::Null))
}
