//! The shapes of records: how long they are, which keys they have, what is in them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base::Random;

use crate::units::{Bytes, NotAValue, as_text, number};

/// How long a record's value is.
#[derive(Clone, PartialEq, Debug)]
pub enum RecordBytes {
    Fixed(usize),
    /// From the one to the other, both included, all equally often.
    Between(usize, usize),
    /// Sizes and how often each comes.
    Weighted(Vec<(usize, f64)>),
}

impl Default for RecordBytes {
    fn default() -> Self {
        Self::Fixed(1000)
    }
}

impl RecordBytes {
    #[must_use]
    pub fn least(&self) -> usize {
        match self {
            Self::Fixed(bytes) | Self::Between(bytes, _) => *bytes,
            Self::Weighted(weights) => weights.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0),
        }
    }

    #[must_use]
    pub fn most(&self) -> usize {
        match self {
            Self::Fixed(bytes) | Self::Between(_, bytes) => *bytes,
            Self::Weighted(weights) => weights.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        }
    }

    /// The length of the next record.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> usize {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Between(least, most) => least + random.below((most - least + 1) as u64) as usize,
            Self::Weighted(weights) => {
                let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
                let mut left = unit(random) * total;
                let found = weights.iter().find(|(_, weight)| {
                    left -= weight;
                    left < 0.0
                });
                found.or(weights.last()).map_or(0, |(bytes, _)| *bytes)
            }
        }
    }
}

/// From 0 to below 1.
pub(crate) fn unit(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn bytes(text: &str) -> Result<usize, NotAValue> {
    Ok(text.parse::<Bytes>()?.0 as usize)
}

impl FromStr for RecordBytes {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        if let Some((least, most)) = text.split_once("..") {
            let (least, most) = (bytes(least)?, bytes(most)?);
            return if least <= most { Ok(Self::Between(least, most)) } else { Err(NotAValue::new(text, "a range")) };
        }
        if !text.contains(':') {
            return bytes(text).map(Self::Fixed);
        }
        let weighted = |part: &str| {
            let (size, weight) = part.split_once(':').ok_or_else(|| NotAValue::new(part, "a size and its weight"))?;
            Ok((bytes(size)?, number(weight)?))
        };
        text.split(',').map(weighted).collect::<Result<_, _>>().map(Self::Weighted)
    }
}

impl fmt::Display for RecordBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => bytes.fmt(f),
            Self::Between(least, most) => write!(f, "{least}..{most}"),
            Self::Weighted(weights) => {
                let parts: Vec<String> = weights.iter().map(|(bytes, weight)| format!("{bytes}:{weight}")).collect();
                f.write_str(&parts.join(","))
            }
        }
    }
}

/// Which keys records have.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum KeyShape {
    /// None: batches go to partitions in turn.
    #[default]
    None,
    /// Every key equally often.
    Uniform,
    /// The key of rank `k` as often as `1 / k^skew`.
    Zipf { skew: f64 },
}

impl FromStr for KeyShape {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        match text {
            "none" => Ok(Self::None),
            "uniform" => Ok(Self::Uniform),
            "zipf" => Ok(Self::Zipf { skew: 1.0 }),
            _ => match text.strip_prefix("zipf:") {
                Some(skew) => Ok(Self::Zipf { skew: number(skew)? }),
                None => Err(NotAValue::new(text, "none, uniform, zipf or zipf:SKEW")),
            },
        }
    }
}

impl fmt::Display for KeyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { skew } => write!(f, "zipf:{skew}"),
        }
    }
}

/// What is in a record's value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum PayloadShape {
    /// Bytes that no codec makes shorter.
    #[default]
    Random,
    /// Bytes that a codec makes so many times shorter, about.
    Ratio(f64),
    /// Pieces of a file.
    File(PathBuf),
}

impl FromStr for PayloadShape {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let refused = || NotAValue::new(text, "random, ratio:N (1 or more) or file:PATH");
        match text.split_once(':') {
            None if text == "random" => Ok(Self::Random),
            Some(("ratio", ratio)) => {
                number(ratio).ok().filter(|ratio| *ratio >= 1.0).map(Self::Ratio).ok_or_else(refused)
            }
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for PayloadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Ratio(ratio) => write!(f, "ratio:{ratio}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

as_text!(RecordBytes, KeyShape, PayloadShape);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_said_as_they_are_written() {
        for text in ["100", "50..500", "100:9,10240:1"] {
            assert_eq!(text.parse::<RecordBytes>().expect("a shape").to_string(), text);
        }
        for text in ["none", "uniform", "zipf:1.2"] {
            assert_eq!(text.parse::<KeyShape>().expect("a shape").to_string(), text);
        }
        for text in ["random", "ratio:4", "file:/tmp/x"] {
            assert_eq!(text.parse::<PayloadShape>().expect("a shape").to_string(), text);
        }
        for bad in ["500..50", "100:x", "ratio:0.5", "file:", "zipf:x"] {
            let all = (bad.parse::<RecordBytes>(), bad.parse::<KeyShape>(), bad.parse::<PayloadShape>());
            assert!(matches!(all, (Err(_), Err(_), Err(_))), "{bad}: {all:?}");
        }
    }

    #[test]
    fn lengths_are_drawn_as_often_as_their_shape_says() {
        let mut random = Random::new(1);
        let range: RecordBytes = "10..12".parse().expect("a range");
        let drawn: std::collections::BTreeSet<_> = (0..100).map(|_| range.draw(&mut random)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [10, 11, 12]);
        let weighted: RecordBytes = "10:3,20:1".parse().expect("weights");
        let tens = (0..4000).filter(|_| weighted.draw(&mut random) == 10).count();
        assert!((2850..3150).contains(&tens), "{tens}");
    }
}
