//! Who reads a log from front to back: so that the next read needs no index, and what follows is read ahead, more each time.
//!
//! Owner: the log. Pure. A reader is known only by where its last read ended; whoever asks for exactly that offset goes on with it.
//!
//! Bound: [`CURSORS_MAX`] readers of one log; beyond it the one that was idle longest is forgotten and starts small again. A log that
//! nobody reads from disk holds no memory here.

use base::Offset;

const CURSORS_MAX: usize = 16;
const WINDOW_BLOCKS_MAX: u32 = 8;

/// Where a reader stands in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    pub offset: Offset,
    /// The segment and the position of the batch that begins at `offset`; `None` for a reader that is new.
    pub at: Option<(Offset, u64)>,
    /// Blocks to have under way ahead of it.
    pub window_blocks: u32,
}

/// The readers of one log, the one that read last at the end.
#[derive(Clone, Debug, Default)]
pub struct Cursors {
    known: Vec<Cursor>,
}

impl Cursors {
    /// The reader that goes on at `offset` of `segment`, or a new one.
    pub(super) fn take(&mut self, offset: Offset, segment: Offset) -> Cursor {
        let known = self.known.iter().position(|cursor| cursor.offset == offset);
        let cursor = known.map(|index| self.known.remove(index));
        let fresh = Cursor { offset, at: None, window_blocks: 0 };
        // At the end of a segment its reader goes on in the next one, at the same pace.
        cursor.map_or(fresh, |cursor| Cursor { at: cursor.at.filter(|(of, _)| *of == segment), ..cursor })
    }

    /// A reader has read up to `offset`, which begins at `at`.
    pub(super) fn put(&mut self, before: &Cursor, offset: Offset, at: (Offset, u64)) {
        if self.known.len() == CURSORS_MAX {
            self.known.remove(0);
        }
        let window_blocks = (before.window_blocks * 2).clamp(1, WINDOW_BLOCKS_MAX);
        self.known.push(Cursor { offset, at: Some(at), window_blocks });
    }

    /// Positions are of a log that was truncated: forget them.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_recognised_and_reads_ahead_more_each_time() {
        let mut cursors = Cursors::default();
        let mut windows = Vec::new();
        for step in 0..6 {
            let cursor = cursors.take(Offset(step * 10), Offset(0));
            windows.push(cursor.window_blocks);
            assert_eq!(cursor.at, (step > 0).then_some((Offset(0), step as u64 * 1000)));
            cursors.put(&cursor, Offset(step * 10 + 10), (Offset(0), step as u64 * 1000 + 1000));
        }
        assert_eq!(windows, [0, 1, 2, 4, 8, 8]);
        // In the next segment the position means nothing, the pace does.
        let cursor = cursors.take(Offset(60), Offset(60));
        assert_eq!((cursor.at, cursor.window_blocks), (None, 8));
        assert_eq!(cursors.take(Offset(60), Offset(60)).window_blocks, 0, "it was taken");
    }

    #[test]
    fn many_readers_are_bounded() {
        let mut cursors = Cursors::default();
        for reader in 0..100 {
            let cursor = cursors.take(Offset(reader), Offset(0));
            cursors.put(&cursor, Offset(1000 + reader), (Offset(0), 5));
        }
        assert_eq!(cursors.known.len(), CURSORS_MAX);
        assert!(cursors.take(Offset(1099), Offset(0)).at.is_some());
        assert!(cursors.take(Offset(1000), Offset(0)).at.is_none());
    }
}
