//! What the derive's code calls; not meant to be called by hand.

use crate::{DecodeError, Decoder, EncodeError, EncodeFault, Encoder, Nullable, Wire};

/// The larger of two depths.
#[must_use]
pub const fn deeper(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// Whether a field is set: its value is not the default.
pub fn differs<T: PartialEq>(value: &T, default: &T) -> bool {
    value != default
}

pub fn put_option<'a, T: Nullable<'a>>(
    value: &Option<T>,
    encoder: &mut Encoder,
    nullable: bool,
) -> Result<(), EncodeError> {
    match value {
        Some(value) if nullable => value.put_present(encoder),
        Some(value) => value.put(encoder),
        None if nullable => {
            T::put_null(encoder);
            Ok(())
        }
        None => Err(EncodeError::new(EncodeFault::Null)),
    }
}

/// As [`put_option`] in a tagged field.
pub fn put_tagged_option<'a, T: Nullable<'a>>(
    value: &Option<T>,
    encoder: &mut Encoder,
    nullable: bool,
) -> Result<(), EncodeError> {
    match value {
        Some(value) if nullable => value.put_tagged_present(encoder),
        None if nullable => {
            T::put_tagged_null(encoder);
            Ok(())
        }
        _ => put_option(value, encoder, nullable),
    }
}

pub fn take_option<'a, T: Nullable<'a>>(decoder: &mut Decoder<'a>, nullable: bool) -> Result<Option<T>, DecodeError> {
    if nullable { T::take_nullable(decoder) } else { <T as Wire<'a>>::take(decoder).map(Some) }
}

/// As [`take_option`] in a tagged field.
pub fn take_tagged_option<'a, T: Nullable<'a>>(
    decoder: &mut Decoder<'a>,
    nullable: bool,
) -> Result<Option<T>, DecodeError> {
    if nullable { T::take_tagged_nullable(decoder) } else { take_option(decoder, nullable) }
}
