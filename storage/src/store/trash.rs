//! Getting rid of files without the disk noticing: renamed into the trash by whoever drops them, then shortened bit by bit, then
//! unlinked.
//!
//! Owner: a shard's store; the files are those it discarded, and at a start the first shard takes what an earlier run left. Removing
//! 1 GiB in one go frees so many extents that the journal's flushes waited 143 ms for it; in steps of [`SHRINK_BYTES`] they do not.
//!
//! Order: the journal record that makes a removal final comes first and is the caller's; what is here is nobody's any more.
//! Whatever is interrupted is done again at the next start.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::Instant;
use shard::sync::Event;
use shard::{OpenOptions, Shard};

/// A file loses this much at a time. Where the file system passes on what is free (`discard`) each step holds the device up: with steps of
/// 16 MiB the p99 of a commit was nine times the quiet one while a gigabyte went, with these 1.6 times.
pub(crate) const SHRINK_BYTES: u64 = 1 << 20;
/// Between two steps, for the journal to get its flushes in.
const STEP_PAUSE: Duration = Duration::from_millis(1);

/// The trash of a shard. Clones are the same.
#[derive(Clone)]
pub(crate) struct Trash(Rc<Inner>);

struct Inner {
    shard: Shard,
    waiting: RefCell<VecDeque<Discarded>>,
    /// The disk is full: nothing is kept for its time.
    hurried: Cell<bool>,
    changed: Event,
    stopped: Cell<bool>,
}

struct Discarded {
    path: PathBuf,
    due: Instant,
}

impl Trash {
    pub(crate) fn new(shard: Shard) -> Self {
        Self(Rc::new(Inner {
            shard,
            waiting: RefCell::default(),
            hurried: Cell::new(false),
            changed: Event::new(),
            stopped: Cell::new(false),
        }))
    }

    /// Takes files, and directories of files, that are in the trash directory already; they go for good after `keep`
    /// (`file.delete.delay.ms`).
    pub(crate) fn put(&self, paths: Vec<PathBuf>, keep: Duration) {
        let due = self.0.shard.now() + keep;
        self.0.waiting.borrow_mut().extend(paths.into_iter().map(|path| Discarded { path, due }));
        self.0.changed.notify_all();
    }

    /// While set, nothing is kept for its time.
    pub(crate) fn set_hurried(&self, on: bool) {
        self.0.hurried.set(on);
        self.0.changed.notify_all();
    }

    /// What waits.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.waiting.borrow().len()
    }

    /// Ends [`Trash::run`] after the step it is at.
    pub(crate) fn stop(&self) {
        self.0.stopped.set(true);
        self.0.changed.notify_all();
    }

    /// Removes what is due, one file after another, until stopped: a background task.
    pub(crate) async fn run(&self) {
        while !self.0.stopped.get() {
            let changed = self.0.changed.wait();
            let next = self.0.waiting.borrow().iter().map(|discarded| discarded.due).min();
            match next {
                None => changed.await,
                Some(due) if due > self.0.shard.now() && !self.0.hurried.get() => {
                    // A stop must not wait for a delay of minutes.
                    shard::sync::either(self.0.shard.sleep_until(due), changed).await;
                }
                Some(due) => {
                    let taken = {
                        let mut waiting = self.0.waiting.borrow_mut();
                        let index = waiting.iter().position(|discarded| discarded.due == due);
                        index.and_then(|index| waiting.remove(index)).expect("the one that is due")
                    };
                    if let Err(error) = self.remove(&taken.path).await {
                        tracing::warn!(
                            path = %taken.path.display(), %error,
                            "a discarded file cannot be removed and takes room until the next start"
                        );
                    }
                }
            }
        }
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        let fs = self.0.shard.fs();
        match fs.stat(path).await? {
            None => Ok(()),
            Some(stat) if stat.is_dir => {
                for entry in fs.list(path).await? {
                    // Log directories hold files only; anything else makes the removal below fail, and stays.
                    if !entry.is_dir {
                        self.remove_file(&path.join(&entry.name), entry.bytes).await?;
                    }
                }
                if self.0.stopped.get() { Ok(()) } else { fs.remove_dir(path).await }
            }
            Some(stat) => self.remove_file(path, stat.bytes).await,
        }
    }

    async fn remove_file(&self, path: &Path, mut bytes: u64) -> io::Result<()> {
        let fs = self.0.shard.fs();
        if bytes > SHRINK_BYTES {
            let options = OpenOptions { write: true, direct: true, ..OpenOptions::default() };
            let file = fs.open(path, options).await?;
            while bytes > SHRINK_BYTES && !self.0.stopped.get() {
                bytes -= SHRINK_BYTES;
                fs.set_len(&file, bytes).await?;
                self.0.shard.sleep(STEP_PAUSE).await;
            }
        }
        if self.0.stopped.get() { Ok(()) } else { fs.remove(path).await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk::Disk;
    use shard::Class;

    const KEEP: Duration = Duration::from_secs(60);

    #[test]
    fn files_and_directories_go_in_steps_and_after_their_time() {
        let disk = Disk::default();
        let shard = disk.shard(1 << 20);
        for (path, bytes) in [("/trash/now", 10), ("/trash/later", 40 << 20), ("/trash/dir/a", 9), ("/trash/dir/b", 9)]
        {
            disk.put(path, vec![1; bytes]);
        }
        let trash = Trash::new(shard.clone());
        let task = {
            let trash = trash.clone();
            async move { trash.run().await }
        };
        let running = shard.spawn(Class::Background, shard.account("trash"), task);
        let (of_disk, of_shard) = (disk.clone(), shard.clone());
        let files = move || of_disk.0.borrow().files.len();
        shard.run(async move {
            trash.put(vec!["/trash/now".into(), "/trash/gone already".into()], Duration::ZERO);
            trash.put(vec!["/trash/later".into(), "/trash/dir".into()], KEEP);
            of_shard.sleep(Duration::from_secs(59)).await;
            assert_eq!((trash.len(), files()), (2, 3));
            of_shard.sleep(Duration::from_secs(2)).await;
            assert_eq!((trash.len(), files()), (0, 0));
            let log = disk.0.borrow().log.clone();
            let shrunk: Vec<_> = log.iter().filter(|step| step.starts_with("set_len")).cloned().collect();
            let steps: Vec<_> = (1..40_u64).rev().map(|mib| format!("set_len {}", mib << 20)).collect();
            assert_eq!(shrunk, steps);
            // A full disk waits for nobody; a stop ends a wait for what is due much later.
            disk.put("/trash/x", vec![1; 100]);
            trash.put(vec!["/trash/x".into()], KEEP);
            trash.set_hurried(true);
            of_shard.sleep(Duration::from_secs(1)).await;
            assert_eq!((trash.len(), files()), (0, 0));
            trash.set_hurried(false);
            disk.put("/trash/y", vec![1; 100]);
            trash.put(vec!["/trash/y".into()], KEEP);
            trash.stop();
            running.await;
            assert_eq!((trash.len(), files()), (1, 1));
        });
    }
}
