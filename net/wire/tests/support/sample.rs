//! Random values of every message, with what a version lacks left at its default.
//!
//! Strings and bytes are slices of static text, so a sample fits every lifetime, and the same seed gives the same sample.

use std::sync::LazyLock;

use base::{BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Random, Uuid};
use wire::{Array, ErrorCode, Records, STRING_BYTES_MAX};

/// Text with characters of one to four bytes, longer than any string may be.
static TEXT: LazyLock<String> = LazyLock::new(|| "a topic, größer als 128 €, 🌊".repeat(2_000));

/// Where samples come from: a seed and the version they are for.
pub struct Source {
    random: Random,
    pub version: i16,
    /// Whether the next `Option` may be null.
    pub nullable: bool,
}

impl Source {
    pub fn new(version: i16, seed: u64) -> Self {
        Self { random: Random::new(seed), version, nullable: false }
    }

    /// A number that is often at an edge of its type or of a length prefix.
    fn number(&mut self) -> i64 {
        let edges = [0, 1, -1, 127, 128, 16_383, i64::from(i32::MAX), i64::MAX, i64::MIN];
        match self.random.below(3) {
            0 => edges[self.random.below(edges.len() as u64) as usize],
            _ => self.random.next_u64() as i64,
        }
    }

    /// Mostly short, at times just around where a length takes another byte.
    fn length(&mut self) -> usize {
        match self.random.below(40) {
            0 => STRING_BYTES_MAX - self.random.below(4) as usize,
            1..4 => 16_382 + self.random.below(3) as usize,
            4..10 => 125 + self.random.below(5) as usize,
            _ => self.random.below(12) as usize,
        }
    }
}

pub trait Sample: Sized {
    fn sample(source: &mut Source) -> Self;
}

macro_rules! numbers {
    ($($type:ty: |$number:ident| $value:expr;)*) => {$(
        impl Sample for $type {
            fn sample(source: &mut Source) -> Self {
                let $number = source.number();
                $value
            }
        }
    )*};
}

numbers! {
    bool: |number| number & 1 == 1;
    i8: |number| number as i8;
    i16: |number| number as i16;
    i32: |number| number as i32;
    i64: |number| number;
    Uuid: |number| Uuid((number as i128).wrapping_mul(0x1_0000_0001_0000_0001).to_be_bytes());
    BrokerId: |number| BrokerId(number as i32);
    PartitionIndex: |number| PartitionIndex(number as i32);
    LeaderEpoch: |number| LeaderEpoch(number as i32);
    Offset: |number| Offset(number);
    ProducerId: |number| ProducerId(number);
    ProducerEpoch: |number| ProducerEpoch(number as i16);
    ErrorCode: |number| ErrorCode::ALL[number.unsigned_abs() as usize % ErrorCode::ALL.len()];
}

impl Sample for &'_ str {
    fn sample(source: &mut Source) -> Self {
        &TEXT[..TEXT.floor_char_boundary(source.length())]
    }
}

impl Sample for &'_ [u8] {
    fn sample(source: &mut Source) -> Self {
        &TEXT.as_bytes()[..source.length()]
    }
}

impl Sample for Records<'_> {
    fn sample(source: &mut Source) -> Self {
        if source.random.chance(1, 5) { Self::Null } else { Self::Bytes(Sample::sample(source)) }
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(source: &mut Source) -> Self {
        let null = source.nullable && source.random.chance(1, 3);
        (!null).then(|| T::sample(source))
    }
}

impl<T: Sample> Sample for Array<'_, T> {
    fn sample(source: &mut Source) -> Self {
        (0..source.random.below(4)).map(|_| T::sample(source)).collect()
    }
}

/// Makes samples of a struct from its line in a table.
macro_rules! sample_fields {
    ($name:ty {
        $($field:ident $([$($versions:tt)+])? $(beyond [$($beyond:tt)+])? $(null [$($nullable:tt)+])?),* $(,)?
    }) => {
        impl $crate::sample::Sample for $name {
            fn sample(source: &mut $crate::sample::Source) -> Self {
                let mut value = Self::default();
                $(
                    source.nullable = false $(|| ($($nullable)+).contains(&source.version))?;
                    if true $(&& ($($versions)+).contains(&source.version))?
                        $(&& ($($beyond)+).contains(&source.version))?
                    {
                        value.$field = $crate::sample::Sample::sample(source);
                    }
                )*
                // Names every field, so that a new one cannot be forgotten in the table.
                let Self { $($field: _),* } = &value;
                value
            }
        }
    };
}
