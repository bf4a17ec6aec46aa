//! The names of a segment's files. Pure.
//!
//! A segment is known by its base offset, the offset of its first record, written as 20 digits so that names sort as offsets do.
//! Kafka's names, so that its tools read our directories. What compaction writes anew has a revision behind the offset, so that the
//! old files and the new ones stand beside each other until the journal says which count.

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

/// What tells the files of a segment from those of all others of its log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentName {
    pub base: Offset,
    /// How often compaction has written it anew, up to [`SegmentName::REVISION_MAX`] and then from 1 on again: no more than two
    /// revisions of a segment are ever there at once.
    pub revision: u8,
}

impl SegmentName {
    /// Seven bits in a segment's description.
    pub const REVISION_MAX: u8 = 127;

    /// Of a segment as appends make it.
    #[must_use]
    pub fn first(base: Offset) -> Self {
        Self { base, revision: 0 }
    }

    /// Of what compaction writes in its place.
    #[must_use]
    pub fn next(self) -> Self {
        let revision = if self.revision == Self::REVISION_MAX { 1 } else { self.revision + 1 };
        Self { revision, ..self }
    }

    /// `00000000000000000042.log`, or `00000000000000000042.3.log`.
    ///
    /// # Panics
    /// On a negative offset: no record has one.
    #[must_use]
    pub fn file(self, kind: FileKind) -> String {
        let Self { base, revision } = self;
        assert!(base.0 >= 0, "segment of offset {base}");
        match revision {
            0 => format!("{:020}.{}", base.0, kind.extension()),
            _ => format!("{:020}.{revision}.{}", base.0, kind.extension()),
        }
    }
}

/// The segment and kind that a file's name says; `None` for what is not a segment file.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<(SegmentName, FileKind)> {
    let (digits, rest) = name.split_once('.')?;
    let (revision, extension) = match rest.split_once('.') {
        Some((revision, extension)) => (revision.parse().ok().filter(|&revision: &u8| revision > 0)?, extension),
        None => (0, rest),
    };
    let kind = FileKind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
    let exact = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let segment = SegmentName { base: Offset(digits.parse().ok().filter(|_| exact)?), revision };
    // One name for each file: no signs and no zeros before a revision.
    (revision <= SegmentName::REVISION_MAX && segment.file(kind) == name).then_some((segment, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_sort_as_offsets() {
        let mut names = Vec::new();
        for base in [0, 9, 10, 42, i64::from(u32::MAX), i64::MAX] {
            for kind in FileKind::ALL {
                for revision in [0, 1, 12, SegmentName::REVISION_MAX] {
                    let segment = SegmentName { base: Offset(base), revision };
                    assert_eq!(parse_file_name(&segment.file(kind)), Some((segment, kind)));
                }
            }
            names.push(SegmentName::first(Offset(base)).file(FileKind::Log));
        }
        assert!(names.is_sorted());
        assert_eq!(names[3], "00000000000000000042.log");
        assert_eq!(SegmentName::first(Offset(42)).next().file(FileKind::Log), "00000000000000000042.1.log");
    }

    #[test]
    fn revisions_go_round_and_never_back_to_none() {
        let mut segment = SegmentName::first(Offset(7));
        for revision in (1..=SegmentName::REVISION_MAX).chain(1..4) {
            segment = segment.next();
            assert_eq!(segment, SegmentName { base: Offset(7), revision });
        }
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
            "00000000000000000042.0.log",
            "00000000000000000042.01.log",
            "00000000000000000042.+1.log",
            "00000000000000000042.128.log",
            "00000000000000000042..log",
            "00000000000000000042.1.1.log",
        ] {
            assert_eq!(parse_file_name(name), None, "{name:?}");
        }
    }
}
