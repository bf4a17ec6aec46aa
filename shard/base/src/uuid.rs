//! Kafka's topic ids: 128 bits, shown as 22 characters of URL-safe base64 without padding.

use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A 128-bit id in big-endian bytes, as it stands on the wire and in `format.toml`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zeros: "no id" on the wire.
    pub const ZERO: Self = Self([0; 16]);

    /// A random (version 4) id from 128 random bits; never [`Uuid::ZERO`].
    #[must_use]
    pub fn from_random(high: u64, low: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for index in 0..22 {
            // 21 groups of six bits from the top; the last group has two bits and four of padding.
            let group = if index < 21 { bits >> (122 - 6 * index) } else { bits << 4 };
            write!(f, "{}", char::from(ALPHABET[(group & 63) as usize]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of URL-safe base64 that hold 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseUuidError;

impl fmt::Display for ParseUuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topic id is 22 characters of URL-safe base64")
    }
}

impl std::error::Error for ParseUuidError {}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        if text.len() != 22 {
            return Err(ParseUuidError);
        }
        let mut bits: u128 = 0;
        for (index, character) in text.bytes().enumerate() {
            let group = ALPHABET.iter().position(|&c| c == character).ok_or(ParseUuidError)? as u128;
            if index < 21 {
                bits = bits << 6 | group;
            } else if group & 15 == 0 {
                bits = bits << 2 | group >> 4;
            } else {
                return Err(ParseUuidError);
            }
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn text_round_trips() {
        for seed in 0..1000u64 {
            let id = Uuid::from_random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), !seed);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert!("AAAAAAAAAAAAAAAAAAAAAB".parse::<Uuid>().is_err());
        assert!("short".parse::<Uuid>().is_err());
    }
}
