//! Values as people write them: `128KiB`, `5ms`, `50k`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// Text that is not such a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAValue(String);

impl NotAValue {
    pub(crate) fn new(text: &str, what: &str) -> Self {
        Self(format!("`{text}` is not {what}"))
    }
}

impl fmt::Display for NotAValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAValue {}

/// A number and the unit behind it, one of `units`.
fn scaled(text: &str, units: &[(&str, f64)], what: &str) -> Result<f64, NotAValue> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit = text[digits.len()..].trim();
    let refused = || {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        NotAValue(format!("`{text}` is not {what}: a number, with one of {} behind it", names.join(", ")))
    };
    let number: f64 = digits.trim().replace('_', "").parse().map_err(|_| refused())?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    if !number.is_finite() || number < 0.0 {
        return Err(refused());
    }
    Ok(number * factor)
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

const BYTE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
];

impl FromStr for Bytes {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        Ok(Self(scaled(text, BYTE_UNITS, "a number of bytes")? as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 > 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span(pub Duration);

const SPAN_UNITS: &[(&str, f64)] =
    &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

impl FromStr for Span {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let seconds = if text.trim() == "0" { 0.0 } else { scaled(text, SPAN_UNITS, "a span of time")? };
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| NotAValue(format!("`{text}` is too long a time")))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const COUNT_UNITS: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("M", 1e6)];

/// A number that may have `k` or `M` behind it.
///
/// # Errors
/// Text that is none.
pub fn number(text: &str) -> Result<f64, NotAValue> {
    scaled(text, COUNT_UNITS, "a number")
}

/// The brokers of a bootstrap list, `host:port` with commas between them.
#[must_use]
pub fn addresses(bootstrap: &str) -> Vec<String> {
    bootstrap.split(',').map(|address| address.trim().to_owned()).collect()
}

/// Gives types that are written as text their form in files and reports.
macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let written: $crate::units::Written = ::serde::Deserialize::deserialize(deserializer)?;
                written.text().parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use as_text;

as_text!(Bytes, Span);

/// A value of a file: in quotes, or a bare number.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Text(String),
    Integer(i64),
    Float(f64),
}

impl Written {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_said_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("100", 100), ("1KiB", 1024), ("1.5 MB", 1_500_000), ("16MiB", 16 << 20)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        for (text, micros) in [("0", 0), ("5ms", 5000), ("1.5s", 1_500_000), ("2m", 120_000_000), ("7us", 7)] {
            let span = Span(Duration::from_micros(micros));
            assert_eq!(text.parse(), Ok(span), "{text}");
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!(number("50k"), Ok(50_000.0));
        assert_eq!(number("1_000"), Ok(1000.0));
        for bad in ["", "x", "-1", "5 apples", "1e999"] {
            assert!(bad.parse::<Bytes>().is_err() && bad.parse::<Span>().is_err() && number(bad).is_err(), "{bad}");
        }
    }
}
