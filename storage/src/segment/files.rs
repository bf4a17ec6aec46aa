//! Files of segments, opened when somebody reads them and closed when others are wanted more.
//!
//! Owner: a shard's store. A handle given out stays good however long it is held; the table only bounds how many it keeps open itself,
//! for the kernel's and the ring's file tables are far smaller than the number of segments.
//!
//! Bound: the count it was made with. Opening is one janitor operation; who asks while it is under way waits for the same one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use shard::sync::Event;
use shard::{File, OpenOptions, Shard};

use super::{FileKind, SegmentName};
use crate::config::LogId;

/// A file of a segment of a log of this shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileKey {
    pub log: LogId,
    pub segment: SegmentName,
    pub kind: FileKind,
}

impl FileKey {
    /// Its path, in the log's directory.
    #[must_use]
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(self.segment.file(self.kind))
    }
}

/// The open files. Clones are the same table.
#[derive(Clone)]
pub struct FileTable {
    shard: Shard,
    state: Rc<RefCell<State>>,
}

struct State {
    open_max: usize,
    slots: BTreeMap<FileKey, Slot>,
    /// Open files by last use, oldest first.
    order: BTreeMap<u64, FileKey>,
    tick: u64,
}

enum Slot {
    /// Somebody opens it; the number tells openings apart.
    Opening(u64, Event),
    Open {
        file: File,
        used: u64,
    },
}

impl State {
    fn touch(&mut self, key: FileKey) -> Option<File> {
        let Some(Slot::Open { file, used }) = self.slots.get_mut(&key) else { return None };
        self.tick += 1;
        self.order.remove(used);
        *used = self.tick;
        self.order.insert(self.tick, key);
        Some(file.clone())
    }

    fn insert(&mut self, key: FileKey, file: File) {
        while self.order.len() >= self.open_max {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.slots.remove(&oldest);
        }
        self.tick += 1;
        self.slots.insert(key, Slot::Open { file, used: self.tick });
        self.order.insert(self.tick, key);
    }

    fn remove(&mut self, key: &FileKey) {
        if let Some(Slot::Open { used, .. }) = self.slots.remove(key) {
            self.order.remove(&used);
        }
    }

    fn is_opening(&self, key: &FileKey, number: u64) -> bool {
        matches!(self.slots.get(key), Some(Slot::Opening(of, _)) if *of == number)
    }
}

/// Ends an opening, however it ends: those who wait look again.
struct Opening<'a> {
    table: &'a FileTable,
    key: FileKey,
    number: u64,
    done: Event,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut state = self.table.state.borrow_mut();
        if state.is_opening(&self.key, self.number) {
            state.slots.remove(&self.key);
        }
        self.done.notify_all();
    }
}

impl FileTable {
    /// A table that keeps at most `open_max` files, and at least one.
    #[must_use]
    pub fn new(shard: Shard, open_max: usize) -> Self {
        let state = State { open_max: open_max.max(1), slots: BTreeMap::new(), order: BTreeMap::new(), tick: 0 };
        Self { shard, state: Rc::new(RefCell::new(state)) }
    }

    /// The file for reading, opened if need be.
    pub async fn open(&self, key: FileKey, dir: &Path) -> io::Result<File> {
        loop {
            let wait = {
                let mut state = self.state.borrow_mut();
                if let Some(file) = state.touch(key) {
                    return Ok(file);
                }
                match state.slots.get(&key) {
                    Some(Slot::Opening(_, done)) => Some(done.wait()),
                    _ => None,
                }
            };
            match wait {
                Some(wait) => wait.await,
                None => return self.open_new(key, dir).await,
            }
        }
    }

    async fn open_new(&self, key: FileKey, dir: &Path) -> io::Result<File> {
        let done = Event::new();
        let number = {
            let mut state = self.state.borrow_mut();
            state.tick += 1;
            let number = state.tick;
            state.slots.insert(key, Slot::Opening(number, done.clone()));
            number
        };
        let opening = Opening { table: self, key, number, done };
        let options = OpenOptions { read: true, direct: true, ..OpenOptions::default() };
        let file = self.shard.fs().open(key.path(dir), options).await?;
        {
            let mut state = self.state.borrow_mut();
            // Forgotten meanwhile: under this name another file may stand by now.
            if state.is_opening(&key, number) {
                state.insert(key, file.clone());
            }
        }
        drop(opening);
        Ok(file)
    }

    /// The segment is going away: its handles here are closed, and those of openings under way are not kept.
    pub fn forget(&self, log: LogId, segment: SegmentName) {
        let mut state = self.state.borrow_mut();
        FileKind::ALL.into_iter().for_each(|kind| state.remove(&FileKey { log, segment, kind }));
    }

    /// Files held open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.borrow().order.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk::Disk;
    use base::Offset;
    use std::pin::pin;
    use std::task::Poll;

    #[test]
    fn what_is_forgotten_while_it_is_opened_is_not_kept() {
        let disk = Disk::default();
        let shard = disk.shard(1 << 20);
        let key = FileKey { log: LogId::default(), segment: SegmentName::first(Offset(0)), kind: FileKind::Log };
        disk.put(key.path(Path::new("/log")), vec![1; 10]);
        let table = FileTable::new(shard.clone(), 4);
        shard.run(async move {
            let mut first = pin!(table.open(key, Path::new("/log")));
            std::future::poll_fn(|context| {
                assert!(first.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            table.forget(key.log, key.segment);
            // Another file under the same name: its opening is one of its own.
            let second = table.open(key, Path::new("/log"));
            first.await.unwrap();
            assert!(table.is_empty());
            second.await.unwrap();
            assert_eq!(table.len(), 1);
        });
    }
}
