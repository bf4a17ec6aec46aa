//! The names of a segment's files. Pure.
//!
//! A segment is known by its base offset, the offset of its first record, written as 20 digits so that names sort as offsets do.
//! Kafka's names, so that its tools read our directories.

use base::Offset;

/// What a segment file holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileKind {
    /// The batches.
    Log,
    /// Offset to position, sparse.
    Index,
    /// Timestamp to offset, sparse.
    TimeIndex,
}

impl FileKind {
    pub const ALL: [Self; 3] = [Self::Log, Self::Index, Self::TimeIndex];

    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
        }
    }
}

/// `00000000000000000042.log`.
///
/// # Panics
/// On a negative offset: no record has one.
#[must_use]
pub fn file_name(base: Offset, kind: FileKind) -> String {
    assert!(base.0 >= 0, "segment of offset {base}");
    format!("{:020}.{}", base.0, kind.extension())
}

/// The base offset and kind that a file's name says; `None` for what is not a segment file.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<(Offset, FileKind)> {
    let (digits, extension) = name.split_once('.')?;
    let kind = FileKind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
    let exact = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    exact.then(|| digits.parse().ok()).flatten().map(|base| (Offset(base), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_sort_as_offsets() {
        let mut names = Vec::new();
        for base in [0, 9, 10, 42, i64::from(u32::MAX), i64::MAX] {
            for kind in FileKind::ALL {
                let name = file_name(Offset(base), kind);
                assert_eq!(parse_file_name(&name), Some((Offset(base), kind)));
            }
            names.push(file_name(Offset(base), FileKind::Log));
        }
        assert!(names.is_sorted());
        assert_eq!(names[3], "00000000000000000042.log");
    }

    #[test]
    fn other_names_are_not_segments() {
        for name in [
            "",
            ".log",
            "42.log",
            "00000000000000000042",
            "00000000000000000042.txt",
            "00000000000000000042.log.deleted",
            "0000000000000000004x.log",
            "+0000000000000000042.log",
            "-0000000000000000042.log",
            "99999999999999999999.log",
            "000000000000000000042.log",
        ] {
            assert_eq!(parse_file_name(name), None, "{name:?}");
        }
    }
}
