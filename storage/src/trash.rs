//! Getting rid of files without the disk noticing: renamed out of sight at once, then shortened bit by bit, then unlinked.
//!
//! Owner: a shard's store; the files are those it discarded, and at a start one shard takes what an earlier run left. Removing
//! 1 GiB in one go frees so many extents that the journal's flushes waited 143 ms for it; in steps of [`SHRINK_BYTES`] they do not.
//!
//! Order: the journal record that makes a removal final comes first and is the caller's; a file here is nobody's any more.
//! Whatever is interrupted is done again at the next start.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Offset};
use shard::sync::Event;
use shard::{OpenOptions, Shard};

use crate::config::{LogId, paths};
use crate::segment::{FileKind, file_name};

/// A file loses this much at a time.
pub const SHRINK_BYTES: u64 = 16 << 20;
/// Between two steps, for the journal to get its flushes in.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// The trash of a shard. Clones are the same.
#[derive(Clone)]
pub struct Trash(Rc<Inner>);

struct Inner {
    shard: Shard,
    dir: PathBuf,
    waiting: RefCell<VecDeque<Discarded>>,
    changed: Event,
    stopped: Cell<bool>,
}

struct Discarded {
    path: PathBuf,
    due: Instant,
}

impl Trash {
    /// The trash of a data directory, as one shard uses it.
    #[must_use]
    pub fn new(shard: Shard, data_dir: &Path) -> Self {
        Self(Rc::new(Inner {
            shard,
            dir: paths::trash_dir(data_dir),
            waiting: RefCell::default(),
            changed: Event::new(),
            stopped: Cell::new(false),
        }))
    }

    /// Takes a segment's files out of its log's directory; they go for good after `keep`. Files that are not there are no error.
    ///
    /// # Errors
    /// A file cannot be renamed; what is left may be discarded again.
    pub async fn discard_segment(&self, log: LogId, dir: &Path, base: Offset, keep: Duration) -> io::Result<()> {
        for kind in FileKind::ALL {
            self.discard(log, dir, &file_name(base, kind), keep).await?;
        }
        Ok(())
    }

    /// Takes a whole log's directory away, and its topic's when that was the last.
    ///
    /// # Errors
    /// As for [`Trash::discard_segment`].
    pub async fn discard_log(&self, log: LogId, dir: &Path, keep: Duration) -> io::Result<()> {
        let fs = self.0.shard.fs();
        let entries = match fs.list(dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            self.discard(log, dir, &entry.name, keep).await?;
        }
        match fs.remove_dir(dir).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Other partitions may still be there; and one may be created there at any moment, which then makes the directory again.
        if let Some(topic) = dir.parent() {
            let _ = fs.remove_dir(topic).await;
        }
        Ok(())
    }

    async fn discard(&self, log: LogId, dir: &Path, name: &str, keep: Duration) -> io::Result<()> {
        let path = self.0.dir.join(format!("{log}-{name}"));
        match self.0.shard.fs().rename(dir.join(name), &path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let due = self.0.shard.now() + keep;
                self.0.waiting.borrow_mut().push_back(Discarded { path, due });
                self.0.changed.notify_all();
                Ok(())
            }
        }
    }

    /// Takes over what an earlier run left. For one shard of the process, before others discard anything.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub async fn adopt_leftovers(&self) -> io::Result<usize> {
        let entries = match self.0.shard.fs().list(&self.0.dir).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let due = self.0.shard.now();
        let files = entries.iter().filter(|entry| !entry.is_dir);
        let found: Vec<_> = files.map(|entry| Discarded { path: self.0.dir.join(&entry.name), due }).collect();
        let count = found.len();
        self.0.waiting.borrow_mut().extend(found);
        self.0.changed.notify_all();
        Ok(count)
    }

    /// Files waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.waiting.borrow().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends [`Trash::run`] after the step it is at.
    pub fn stop(&self) {
        self.0.stopped.set(true);
        self.0.changed.notify_all();
    }

    /// Removes what is due, one file after another, until stopped: a background task.
    pub async fn run(&self) {
        while !self.0.stopped.get() {
            let changed = self.0.changed.wait();
            let next = self.0.waiting.borrow().iter().map(|discarded| discarded.due).min();
            match next {
                None => changed.await,
                Some(due) if due > self.0.shard.now() => {
                    // A stop must not wait for a delay of minutes.
                    until_either(self.0.shard.sleep_until(due), changed).await;
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
        let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
        let file = match fs.open(path, options).await {
            // Two of one name: the later took the place of the earlier.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let mut len = file.bytes_at_open();
        while len > SHRINK_BYTES && !self.0.stopped.get() {
            len -= SHRINK_BYTES;
            fs.set_len(&file, len).await?;
            self.0.shard.sleep(STEP_PAUSE).await;
        }
        drop(file);
        if len > SHRINK_BYTES { Ok(()) } else { fs.remove(path).await }
    }
}

/// Ends with whichever ends first.
async fn until_either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|context| {
        if a.as_mut().poll(context).is_ready() { std::task::Poll::Ready(()) } else { b.as_mut().poll(context) }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk::Disk;
    use shard::Class;

    const KEEP: Duration = Duration::from_secs(60);

    #[test]
    fn segments_and_logs_go_in_steps_and_after_their_time() {
        let disk = Disk::default();
        let shard = disk.shard(1 << 20);
        let dir = Path::new("/data/logs/t/0-x");
        for base in [0, 7] {
            for kind in FileKind::ALL {
                let bytes = if kind == FileKind::Log { 40 << 20 } else { 100 };
                disk.put(dir.join(file_name(Offset(base), kind)), vec![1; bytes]);
            }
        }
        disk.put("/data/trash/left", vec![1; 10]);
        let trash = Trash::new(shard.clone(), Path::new("/data"));
        let task = {
            let trash = trash.clone();
            async move { trash.run().await }
        };
        let running = shard.spawn(Class::Background, shard.account("trash"), task);
        let (of_disk, of_shard) = (disk.clone(), shard.clone());
        shard.run(async move {
            assert_eq!(trash.adopt_leftovers().await.expect("a list"), 1);
            trash.discard_segment(LogId::default(), dir, Offset(0), KEEP).await.expect("renamed");
            assert!(of_disk.get(dir.join("00000000000000000000.log")).is_none(), "out of sight at once");
            assert!(of_disk.get(format!("/data/trash/{}-00000000000000000000.log", LogId::default())).is_some());
            of_shard.sleep(Duration::from_secs(59)).await;
            assert_eq!(trash.len(), 3, "the leftover went at once, the rest has its time");
            of_shard.sleep(Duration::from_secs(2)).await;
            assert!(trash.is_empty());
            let log = of_disk.0.borrow().log.clone();
            let shrunk: Vec<_> = log.iter().filter(|step| step.starts_with("set_len")).cloned().collect();
            assert_eq!(shrunk, [format!("set_len {}", 24 << 20), format!("set_len {}", 8 << 20)]);

            trash.discard_log(LogId::default(), dir, Duration::ZERO).await.expect("renamed");
            trash.discard_log(LogId::default(), Path::new("/data/none"), Duration::ZERO).await.expect("nothing");
            of_shard.sleep(Duration::from_secs(1)).await;
            assert!(of_disk.0.borrow().files.is_empty());
            // Stopping ends a wait for something that is due much later.
            of_disk.put(dir.join("00000000000000000009.log"), vec![1; 100]);
            trash.discard_segment(LogId::default(), dir, Offset(9), KEEP).await.expect("renamed");
            trash.stop();
            running.await;
            assert_eq!(trash.len(), 1);
        });
        drop(disk);
    }
}
