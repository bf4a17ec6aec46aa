//! Version ranges, written as Kafka's definitions write them: `"4"`, `"0-12"`, `"9+"`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

/// The versions from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

impl Versions {
    /// Every version there can be: the range of a field that names none.
    pub const ALL: Self = Self { first: 0, last: i16::MAX };

    pub fn parse(literal: &LitStr) -> syn::Result<Self> {
        Self::parse_text(&literal.value()).ok_or_else(|| {
            syn::Error::new(literal.span(), "a version range is \"4\", \"0-12\" or \"9+\", the lower number first")
        })
    }

    fn parse_text(text: &str) -> Option<Self> {
        let (first, last) = if let Some(first) = text.strip_suffix('+') {
            (number(first)?, i16::MAX)
        } else if let Some((first, last)) = text.split_once('-') {
            (number(first)?, number(last)?)
        } else {
            (number(text)?, number(text)?)
        };
        (first <= last).then_some(Self { first, last })
    }

    pub fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// The condition "`version` is in this range", with `version` an `i16` in scope.
    pub fn condition(self) -> TokenStream {
        let Self { first, last } = self;
        match self {
            Self::ALL => quote!(true),
            Self { last: i16::MAX, .. } => quote!(version >= #first),
            Self { first: 0, .. } => quote!(version <= #last),
            _ => quote!((#first..=#last).contains(&version)),
        }
    }
}

/// A plain decimal number: no sign, so that `"-1"` is not a range.
fn number(text: &str) -> Option<i16> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn ranges_read_as_kafka_writes_them() {
        let range = |first, last| Some(Versions { first, last });
        let table = [
            ("4", range(4, 4)),
            ("0-12", range(0, 12)),
            ("9+", range(9, i16::MAX)),
            ("0+", Some(Versions::ALL)),
            ("", None),
            ("+", None),
            ("-1", None),
            ("3-", None),
            ("5-4", None),
            ("9+2", None),
            ("40000", None),
        ];
        for (text, expected) in table {
            assert_eq!(Versions::parse_text(text), expected, "{text:?}");
        }
    }
}
