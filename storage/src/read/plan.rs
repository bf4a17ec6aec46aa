//! Which whole batches a read returns. Pure; shared by reads from memory and from disk, so both answer alike.
//!
//! The rules of a fetch:
//! - the first batch returned is the one that holds `from`, or the first above it where `from` itself is gone;
//! - batches are returned whole, and only those that end below `upto` (the high watermark, or another bound of the reader);
//! - together they are at most `max_bytes`, except that the first one may be larger when the reader says so, or it could never
//!   get past a batch larger than its limit.

use std::fmt;
use std::ops::Range;

use base::{LeaderEpoch, Offset};
use record::BatchHeader;
use shard::Slice;

/// How much of a log a reader wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadLimits {
    pub max_bytes: usize,
    /// Return the first batch even where it alone exceeds `max_bytes`.
    pub at_least_one_batch: bool,
    /// The first offset that may not be seen.
    pub upto: Offset,
}

/// Whole batches, one after another, in as many slices as the memory they lie in needs.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub slices: Vec<Slice>,
    pub bytes: usize,
}

impl Read {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes in one piece, for tests and tools.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes);
        self.slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
}

/// A batch header that cannot stand where it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misplaced {
    /// The batch would reach past the end of the bytes that are there.
    PastEnd { size_bytes: usize, available_bytes: u64 },
    /// Its offsets overlap those before it, or run backwards.
    Offsets { base: Offset, last: Offset, least: Offset },
    /// It ends at or above where all that stands here must have ended.
    Beyond { last: Offset, end: Offset },
    /// It says another leader epoch than the log's history does for its offset.
    Epoch { found: LeaderEpoch, known: LeaderEpoch },
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { size_bytes, available_bytes } => {
                write!(f, "a batch of {size_bytes} bytes where {available_bytes} are left")
            }
            Self::Offsets { base, last, least } => {
                write!(f, "a batch of offsets {base} to {last} where {least} is the least that may come")
            }
            Self::Beyond { last, end } => write!(f, "a batch with offset {last} in a segment that ends before {end}"),
            Self::Epoch { found, known } => write!(f, "a batch of leader epoch {found} among those of epoch {known}"),
        }
    }
}

impl std::error::Error for Misplaced {}

/// A batch that a walk has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    pub at: u64,
    pub base: Offset,
    pub last: Offset,
    /// The least base offset that could have come there.
    pub least: Offset,
}

impl Passed {
    /// Offsets are missing before it: compaction took them, or its own base offset, which no checksum covers, is wrong.
    #[must_use]
    pub fn follows_a_hole(&self) -> bool {
        self.base > self.least
    }
}

/// Walks batch headers from a known batch boundary and chooses.
#[derive(Clone, Debug)]
pub struct Walk {
    from: Offset,
    limits: ReadLimits,
    /// Position of the next header.
    at: u64,
    /// Where the bytes end.
    end: u64,
    /// The least base offset that the next batch may have.
    least: Offset,
    /// Every batch here ends below.
    below: Offset,
    chosen: Option<Range<u64>>,
    passed: Option<Passed>,
    done: bool,
}

impl Walk {
    /// A walk from position `at`, where a batch with a base offset of `least` or more begins, to `end`.
    #[must_use]
    pub fn new(from: Offset, limits: ReadLimits, at: u64, end: u64, least: Offset) -> Self {
        Self { from, limits, at, end, least, below: Offset(i64::MAX), chosen: None, passed: None, done: false }
    }

    /// The same, where every batch is known to end below `below`.
    #[must_use]
    pub fn ending_below(self, below: Offset) -> Self {
        Self { below, ..self }
    }

    /// The position whose header the walk must see next; `None` once it has chosen.
    #[must_use]
    pub fn next_header(&self) -> Option<u64> {
        (!self.done && self.at < self.end).then_some(self.at)
    }

    /// The positions of the batches chosen so far; `None` for none.
    #[must_use]
    pub fn chosen(&self) -> Option<Range<u64>> {
        self.chosen.clone()
    }

    /// Where the walk is: the least offset that may come next, and the position where it would.
    #[must_use]
    pub fn reached(&self) -> (Offset, u64) {
        (self.least, self.at)
    }

    /// The batch passed last, chosen or not.
    #[must_use]
    pub fn passed(&self) -> Option<Passed> {
        self.passed
    }

    /// Takes the batch passed last back: it is not what it says.
    ///
    /// # Panics
    /// When none was passed since the last time.
    pub fn step_back(&mut self) {
        let passed = self.passed.take().expect("a batch was passed");
        (self.at, self.least) = (passed.at, passed.least);
        self.chosen = self.chosen.take().map(|chosen| chosen.start..passed.at).filter(|chosen| !chosen.is_empty());
    }

    /// Takes in the header at [`Walk::next_header`].
    ///
    /// # Errors
    /// The header cannot stand there: the bytes are damaged, or `at` was no batch boundary.
    pub fn see(&mut self, header: &BatchHeader) -> Result<(), Misplaced> {
        let (base, last, size) = (header.base_offset, header.last_offset(), header.size_bytes());
        if base < self.least || last < base {
            return Err(Misplaced::Offsets { base, last, least: self.least });
        }
        if last >= self.below {
            return Err(Misplaced::Beyond { last, end: self.below });
        }
        let available_bytes = self.end - self.at;
        if size as u64 > available_bytes {
            return Err(Misplaced::PastEnd { size_bytes: size, available_bytes });
        }
        let next = self.at + size as u64;
        if last >= self.from {
            let start = self.chosen.as_ref().map_or(self.at, |chosen| chosen.start);
            let first_may_exceed = self.chosen.is_none() && self.limits.at_least_one_batch;
            let fits = next - start <= self.limits.max_bytes as u64 || first_may_exceed;
            if last >= self.limits.upto || !fits {
                self.done = true;
                return Ok(());
            }
            self.chosen = Some(start..next);
        }
        self.passed = Some(Passed { at: self.at, base, last, least: self.least });
        self.least = Offset(last.0.saturating_add(1));
        self.at = next;
        Ok(())
    }

    /// Skips to `at`, a batch boundary further on with batches of `least` and above, when everything up to there is chosen too.
    ///
    /// # Panics
    /// When nothing is chosen yet, or the limits forbid it: the caller has compared.
    pub fn skip_to(&mut self, at: u64, least: Offset) {
        let chosen = self.chosen.as_mut().expect("a first batch is chosen before any is skipped");
        assert!(at >= self.at && at <= self.end && at - chosen.start <= self.limits.max_bytes as u64);
        assert!(least <= self.limits.upto && least >= self.least);
        chosen.end = at;
        self.at = at;
        self.least = least;
        self.passed = None;
    }
}
