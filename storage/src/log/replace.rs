//! Puts a segment that compaction has written in the place of those that it was written from.

use std::io;

use base::Offset;

use super::{Log, LogState};
use crate::journal::codec::Control;
use crate::segment::{FileKind, SegmentMeta};
use crate::store::compact::Staged;
use crate::store::{StoreError, is_full};

/// What compaction has made of neighbouring segments.
pub(crate) struct Replacement {
    /// As they were when it began.
    pub(crate) old: Vec<SegmentMeta>,
    pub(crate) staged: Staged,
    /// Of the log then.
    pub(crate) generation: u32,
    /// All records below have been seen.
    pub(crate) cleaned_to: Offset,
}

impl Log {
    /// Makes the new segment the log's, durably, and moves the files of the old ones to the trash. False when the log is not what it
    /// was any more, and nothing has been changed.
    pub(crate) async fn replace_segments(&self, replacement: Replacement) -> Result<bool, StoreError> {
        let log = self.clone();
        self.change(async move { log.do_replace(replacement).await }).await
    }

    async fn do_replace(&self, replacement: Replacement) -> Result<bool, StoreError> {
        let core = &self.0.core;
        let (new, cleaned_to) = (replacement.staged.meta, replacement.cleaned_to);
        let compacted = |segment| Control::Compacted { log: self.0.id, segment, cleaned_to };
        let room = core.promise(&compacted(new)).await?;
        let gate = core.pass_gate().await;
        let turn = self.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
        if !self.still_has(&replacement) {
            return Ok(false);
        }
        let placed = self.place_files(&replacement.staged).await;
        let durable = match placed {
            Ok(()) if self.still_has(&replacement) => {
                let mut state = self.0.state.borrow_mut();
                let segment = state.replace_sealed(&replacement);
                // The order of the entries is that of the changes: whoever comes next finds the log so.
                Ok(room.push(&compacted(segment)))
            }
            Ok(()) => Err(Ok(false)),
            Err(error) => Err(Err(error)),
        };
        let durable = match durable {
            Ok(durable) => durable,
            Err(outcome) => {
                let trashed = self.trash_segments(vec![new.name()]).await?;
                core.trash.put(trashed, std::time::Duration::ZERO);
                return outcome;
            }
        };
        durable.await.map_err(|_| StoreError::Closed)?;
        let trashed = self.trash_segments(replacement.old.iter().map(SegmentMeta::name).collect()).await;
        drop((turn, gate));
        match trashed {
            Ok(trashed) => core.trash.put(trashed, self.delete_delay()),
            // They are the log's no more; the next start, or the one after, finds them.
            Err(error) => tracing::warn!(log = %self.id(), %error, "compacted segments could not be moved away"),
        }
        Ok(true)
    }

    fn still_has(&self, replacement: &Replacement) -> bool {
        let state = self.0.state.borrow();
        self.online(&state).is_ok()
            && state.generation == replacement.generation
            && state.find_sealed(&replacement.old).is_some()
    }

    /// Names the files as the log's, durably.
    async fn place_files(&self, staged: &Staged) -> Result<(), StoreError> {
        let fs = self.0.core.shard.fs();
        for kind in FileKind::ALL {
            let name = staged.meta.name().file(kind);
            let from = staged.dir.path().join(&name);
            match fs.rename(&from, self.0.dir.join(&name)).await {
                Ok(()) => {}
                Err(error) if is_full(&error) => return Err(StoreError::DiskFull),
                // The log was removed with its directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::Closed),
                Err(error) => return Err(StoreError::io("rename", from, error)),
            }
        }
        match fs.sync_dir(&self.0.dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Closed),
            // What else was new in the directory may be lost with it, and a sync is not tried twice.
            Err(error) => self.0.core.shard.abort(&format!("syncing {} failed: {error}", self.0.dir.display())),
            Ok(()) => Ok(()),
        }
    }
}

impl LogState {
    /// Where segments stand, if the log has them as they were. What the broker's clock says of them may have been corrected.
    fn find_sealed(&self, old: &[SegmentMeta]) -> Option<std::ops::Range<usize>> {
        let first = self.sealed.iter().position(|meta| meta.name() == old[0].name())?;
        let range = first..first + old.len();
        let same = |(now, then): (&SegmentMeta, &SegmentMeta)| {
            now.name() == then.name() && now.end_offset == then.end_offset && now.bytes == then.bytes
        };
        let found = self.sealed.get(range.clone())?;
        found.iter().zip(old).all(same).then_some(range)
    }

    /// Puts the new segment in place; gives its description.
    fn replace_sealed(&mut self, replacement: &Replacement) -> SegmentMeta {
        let range = self.find_sealed(&replacement.old).expect("looked at just now");
        let old = &self.sealed[range.clone()];
        let segment = SegmentMeta {
            created: old.iter().map(|meta| meta.created).min().expect("one at least"),
            last_append: old.iter().map(|meta| meta.last_append).max().expect("one at least"),
            ..replacement.staged.meta
        };
        self.sealed.splice(range, [segment]);
        self.cleaned_to = replacement.cleaned_to.min(self.end);
        // Positions were of the old files, and memory has what was in them: readers are to see the same everywhere.
        self.cursors.borrow_mut().clear();
        self.tail.shrink_below(segment.end_offset);
        self.pending = None;
        self.dirty = true;
        segment
    }
}
