//! A list of values: built from a slice or a vector, or read from a frame without holding its elements.
//!
//! An encoded array is checked to its last element when it is decoded, with no allocation, and from then on is its bytes:
//! walking it decodes each element again. A frame therefore costs no memory beyond itself, and a pass over the bytes per
//! level of nesting.

use std::fmt;

use crate::element::{not_null, put_null_length};
use crate::{DecodeError, Decoder, EncodeError, Encoder, Nullable, Wire};

/// A list in a message. Equal if the elements are, whatever holds them.
#[derive(Clone)]
pub enum Array<'a, T> {
    Items(&'a [T]),
    Owned(Vec<T>),
    /// `count` elements, checked, in the bytes of the decoder.
    Encoded {
        elements: Decoder<'a>,
        count: usize,
    },
}

impl<'a, T> Array<'a, T> {
    #[must_use]
    pub const fn empty() -> Self {
        Self::Items(&[])
    }

    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Items(items) => items.len(),
            Self::Owned(items) => items.len(),
            Self::Encoded { count, .. } => *count,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Wire<'a> + Clone> Array<'a, T> {
    /// The elements, decoded or cloned one by one.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, 'a, T> {
        match self {
            Self::Items(items) => Iter::Items(items.iter()),
            Self::Owned(items) => Iter::Items(items.iter()),
            Self::Encoded { elements, count } => Iter::Encoded { elements: *elements, count: *count },
        }
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

/// Walks an [`Array`].
#[derive(Clone)]
pub enum Iter<'s, 'a, T> {
    Items(std::slice::Iter<'s, T>),
    Encoded { elements: Decoder<'a>, count: usize },
}

impl<'a, T: Wire<'a> + Clone> Iterator for Iter<'_, 'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Items(items) => items.next().cloned(),
            Self::Encoded { elements, count } => {
                *count = count.checked_sub(1)?;
                Some(T::take(elements).expect("the array was checked when it was decoded, and `take` is pure"))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            Self::Items(items) => items.len(),
            Self::Encoded { count, .. } => *count,
        };
        (left, Some(left))
    }
}

impl<'a, T: Wire<'a> + Clone> ExactSizeIterator for Iter<'_, 'a, T> {}

impl<'s, 'a, T: Wire<'a> + Clone> IntoIterator for &'s Array<'a, T> {
    type Item = T;
    type IntoIter = Iter<'s, 'a, T>;

    fn into_iter(self) -> Iter<'s, 'a, T> {
        self.iter()
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Array<'a, T> {
    const DEPTH: usize = 1 + T::DEPTH;

    fn put(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_length(Some(self.len()))?;
        match self {
            Self::Items(items) => items.iter().try_for_each(|item| item.put(encoder)),
            Self::Owned(items) => items.iter().try_for_each(|item| item.put(encoder)),
            Self::Encoded { elements, count } => {
                let mut elements = *elements;
                (0..*count).try_for_each(|_| {
                    let item = T::take(&mut elements);
                    item.expect("the array was checked when it was decoded, and `take` is pure").put(encoder)
                })
            }
        }
    }

    fn take(decoder: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        not_null(decoder, Self::take_nullable)
    }
}

impl<'a, T: Wire<'a>> Nullable<'a> for Array<'a, T> {
    fn put_null(encoder: &mut Encoder) {
        put_null_length(encoder);
    }

    fn take_nullable(decoder: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        let Some(count) = decoder.take_count()? else { return Ok(None) };
        let start = *decoder;
        T::skip(decoder, count)?;
        Ok(Some(Self::Encoded { elements: decoder.since(&start), count }))
    }
}

impl<T> Default for Array<'_, T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> From<Vec<T>> for Array<'_, T> {
    fn from(items: Vec<T>) -> Self {
        Self::Owned(items)
    }
}

impl<'a, T> From<&'a [T]> for Array<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self::Items(items)
    }
}

impl<'a, T> From<&'a Vec<T>> for Array<'a, T> {
    fn from(items: &'a Vec<T>) -> Self {
        Self::Items(items)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Array<'a, T> {
    fn from(items: &'a [T; N]) -> Self {
        Self::Items(items)
    }
}

impl<T> FromIterator<T> for Array<'_, T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Owned(items.into_iter().collect())
    }
}

impl<'a, T: Wire<'a> + Clone + PartialEq> PartialEq for Array<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Wire<'a> + Clone + fmt::Debug> fmt::Debug for Array<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
