//! How far something that a peer feeds or drains has come: a frame on its way in, an answer on its way out.
//!
//! Owner: one connection. Whoever moves the bytes says so here; the [`crate::Watch`] reads it, to tell a peer that is at work from one that
//! keeps memory and goes nowhere.

use std::cell::Cell;
use std::rc::Rc;

use base::Instant;

/// Clones are the same progress.
#[derive(Clone, Default)]
pub struct Progress(Rc<Cell<Option<Moving>>>);

/// Something under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    pub since: Instant,
    /// Bytes that have come or gone.
    pub moved_bytes: usize,
    /// Memory that is kept until it ends.
    pub held_bytes: usize,
    /// It is not the peer that is waited for, but more memory.
    pub waits: bool,
}

/// What those who wait for memory need.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Shortage {
    /// To come back before the next look; 0 when nobody waits.
    pub bytes: usize,
    /// Those that keep memory while they wait for more are among those that are waited for.
    pub waiting_is_in_the_way: bool,
}

impl Progress {
    pub fn begin(&self, now: Instant, held_bytes: usize) {
        self.0.set(Some(Moving { since: now, moved_bytes: 0, held_bytes, waits: false }));
    }

    /// From now on it waits for more memory, and keeps what it has.
    pub fn wait(&self, now: Instant, held_bytes: usize) {
        self.0.set(Some(Moving { since: now, moved_bytes: 0, held_bytes, waits: true }));
    }

    /// So much has moved since the beginning, and so much is held for it now.
    pub fn moved(&self, moved_bytes: usize, held_bytes: usize) {
        self.0.set(self.0.get().map(|moving| Moving { moved_bytes, held_bytes, ..moving }));
    }

    pub fn end(&self) {
        self.0.set(None);
    }

    /// What is under way.
    #[must_use]
    pub fn moving(&self) -> Option<Moving> {
        self.0.get()
    }
}
