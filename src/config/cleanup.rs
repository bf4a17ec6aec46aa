//! What becomes of old records: `cleanup.policy`.

use std::fmt;

/// A list of `compact` and `delete`, or of neither: then everything stays (KIP-1161).
#[derive(Clone, Copy, Eq, Debug)]
pub struct CleanupPolicy {
    pub compact: bool,
    pub delete: bool,
    /// As it was given; of no effect.
    delete_comes_first: bool,
}

impl CleanupPolicy {
    pub const DELETE: Self = Self { compact: false, delete: true, delete_comes_first: true };

    /// Reads a list; `None` when it names anything else, or something twice.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let mut policy = Self { compact: false, delete: false, delete_comes_first: false };
        for name in list.split(',').map(str::trim).filter(|_| !list.trim().is_empty()) {
            let (named, other) = match name {
                "compact" => (&mut policy.compact, policy.delete),
                "delete" => (&mut policy.delete, policy.compact),
                _ => return None,
            };
            if std::mem::replace(named, true) {
                return None;
            }
            if name == "delete" {
                policy.delete_comes_first = !other;
            }
        }
        Some(policy)
    }
}

/// The order of the names means nothing.
impl PartialEq for CleanupPolicy {
    fn eq(&self, other: &Self) -> bool {
        (self.compact, self.delete) == (other.compact, other.delete)
    }
}

impl fmt::Display for CleanupPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.compact, self.delete) {
            (false, false) => "",
            (true, false) => "compact",
            (false, true) => "delete",
            (true, true) if self.delete_comes_first => "delete,compact",
            (true, true) => "compact,delete",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_shown_as_given() {
        for (list, shown) in [
            ("delete", Some("delete")),
            ("compact", Some("compact")),
            ("compact,delete", Some("compact,delete")),
            (" delete , compact ", Some("delete,compact")),
            ("", Some("")),
            (" ", Some("")),
            ("delete,delete", None),
            ("compact,", None),
            (",", None),
            ("Compact", None),
            ("delete,keep", None),
        ] {
            let found = CleanupPolicy::parse(list).map(|policy| policy.to_string());
            assert_eq!(found.as_deref(), shown, "{list:?}");
        }
        assert_eq!(CleanupPolicy::parse("compact,delete"), CleanupPolicy::parse("delete,compact"));
        assert_ne!(CleanupPolicy::parse("compact"), CleanupPolicy::parse("delete"));
    }
}
